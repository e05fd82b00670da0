package store

import (
	"context"
	"errors"
	"fmt"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger/events"
	"fedpost/internal/protocol/webhook"
)

var _ webhook.Store = (*Store)(nil)

// webhookPK is the partition of all webhooks, of which there are few.
const webhookPK = "W#"

func webhookKey(id string) table.Key { return table.Key{PK: webhookPK, SK: id} }

func (s *Store) Webhooks(ctx context.Context) ([]webhook.Webhook, error) {
	items, _, err := s.t.Query(ctx, table.Range{PK: webhookPK})
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	all := make([]webhook.Webhook, len(items))
	for i, it := range items {
		if all[i], err = unpackWebhook(it); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func unpackWebhook(it table.Item) (w webhook.Webhook, err error) {
	err = decode(it, &w)
	w.Version = it.Fence
	return w, err
}

func (s *Store) Webhook(ctx context.Context, id string) (webhook.Webhook, error) {
	it, _, err := s.one(ctx, webhookKey(id))
	switch {
	case err != nil:
		return webhook.Webhook{}, fmt.Errorf("webhook %s: %w", id, err)
	case it == nil:
		return webhook.Webhook{}, webhook.ErrNotFound
	}
	return unpackWebhook(*it)
}

func webhookWrite(w webhook.Webhook) (table.Item, table.Cond, error) {
	data, err := encode(w)
	cond := table.Fenced(w.Version)
	if w.Version == "" {
		cond = table.Cond{Absent: true}
	}
	return table.Item{Key: webhookKey(w.ID), Data: data}, cond, err
}

func (s *Store) SaveWebhook(ctx context.Context, w webhook.Webhook) (webhook.Webhook, error) {
	it, cond, err := webhookWrite(w)
	if err != nil {
		return w, err
	}
	return savedWebhook(w, &it, s.swap(ctx, &it, cond))
}

func savedWebhook(w webhook.Webhook, it *table.Item, err error) (webhook.Webhook, error) {
	if err != nil {
		return w, fmt.Errorf("save webhook %s: %w", w.ID, onConflict(err, webhook.ErrChanged))
	}
	w.Version = it.Fence
	return w, nil
}

func (s *Store) DisableWebhook(ctx context.Context, w webhook.Webhook) (webhook.Webhook, error) {
	it, cond, err := webhookWrite(w)
	if err != nil {
		return w, err
	}
	return savedWebhook(w, &it, s.swapWithEvent(ctx, &it, cond, events.OfWebhook(w.ID, activity.HostOf(w.URL), w.LastError, w.FailingSince)))
}

func (s *Store) DeleteWebhook(ctx context.Context, id string) error {
	w, err := s.Webhook(ctx, id)
	if err != nil {
		return err
	}
	if err := s.t.Delete(ctx, webhookKey(id), table.Fenced(w.Version)); err != nil {
		if errors.Is(err, table.ErrConflict) {
			return s.DeleteWebhook(ctx, id) // it has changed, or is gone
		}
		return fmt.Errorf("delete webhook %s: %w", id, err)
	}
	return nil
}

// OfWebhook reports whether a host is that of a webhook: changes of its state are no events of
// servers.
func (s *Store) OfWebhook(ctx context.Context, host string) (bool, error) {
	all, err := s.Webhooks(ctx)
	for _, w := range all {
		if activity.HostOf(w.URL) == host {
			return true, err
		}
	}
	return false, err
}
