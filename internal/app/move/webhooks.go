package move

import (
	"context"
	"errors"

	"fedpost/internal/protocol/webhook"
)

// webhooks exports the webhooks with their secrets.
func (from Installation) webhooks(ctx context.Context, _ string) (found []thing, _ string, err error) {
	all, err := from.store.Webhooks(ctx)
	for _, w := range all {
		m, err := webhook.Reveal(ctx, from.sealer, w, from.now())
		if err != nil {
			return nil, "", err
		}
		found = append(found, hook{m})
	}
	return found, "", err
}

type hook struct{ webhook.Moved }

func (hook) kind() kind { return webhookKind }

func (h hook) name() string { return "webhook " + h.ID }

func (h hook) check() error { return h.Check() }

func (h hook) stands(ctx context.Context, to Installation) (standing, error) {
	w, err := to.store.Webhook(ctx, h.ID)
	if errors.Is(err, webhook.ErrNotFound) {
		return absent, nil
	}
	if err != nil {
		return absent, err
	}
	theirs, err := webhook.Reveal(ctx, to.sealer, w, to.now())
	return compare(err == nil, err == nil && h.Same(theirs)), err
}

// write saves the webhook at the end of the feed, so that it gets no earlier events.
func (h hook) write(ctx context.Context, to Installation, _ bool) error {
	end, err := to.store.EventsEnd(ctx)
	if err != nil {
		return err
	}
	w, err := to.store.Webhook(ctx, h.ID)
	if err != nil && !errors.Is(err, webhook.ErrNotFound) {
		return err
	}
	if w, err = h.Sealed(ctx, to.sealer, w, end); err != nil {
		return err
	}
	_, err = to.store.SaveWebhook(ctx, w)
	return err
}
