package store

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	return unpacked(items, unpackWebhook)
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

func (s *Store) SaveWebhook(ctx context.Context, w webhook.Webhook) (webhook.Webhook, error) {
	return s.saveWebhook(w, func(it *table.Item, cond table.Cond) error { return s.swap(ctx, it, cond) })
}

func (s *Store) DisableWebhook(ctx context.Context, w webhook.Webhook) (webhook.Webhook, error) {
	e := events.OfWebhook(w.ID, activity.HostOf(w.URL), w.LastError, w.FailingSince)
	return s.saveWebhook(w, func(it *table.Item, cond table.Cond) error { return s.swapWithEvent(ctx, it, cond, e) })
}

func (s *Store) saveWebhook(w webhook.Webhook, write func(*table.Item, table.Cond) error) (webhook.Webhook, error) {
	it, err := jsonItem(webhookKey(w.ID), w, time.Time{})
	if err != nil {
		return w, err
	}
	if err := write(&it, s.ofVersion(w.Version)); err != nil {
		return w, fmt.Errorf("save webhook %s: %w", w.ID, onConflict(err, webhook.ErrChanged))
	}
	w.Version = it.Fence
	return w, nil
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
