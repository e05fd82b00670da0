package move

import (
	"context"
	"errors"

	"fedpost/internal/keys"
	"fedpost/internal/protocol/webhook"
)

// keys exports the signing keys.
func (from Installation) keys(ctx context.Context, cursor string) (found []thing, next string, err error) {
	all, next, err := from.ring.List(ctx, cursor, page)
	for _, k := range all {
		m, err := keys.Reveal(ctx, from.store, from.sealer, k.ID)
		if errors.Is(err, keys.ErrNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, "", err
		}
		found = append(found, key{m})
	}
	return found, next, err
}

type key struct{ keys.Moved }

func (key) kind() kind { return keyKind }

func (k key) name() string { return "key " + k.ID }

func (k key) check() error {
	_, err := k.Public()
	return err
}

// stands compares the public halves: they are of the same key only if the private ones are.
func (k key) stands(ctx context.Context, to Installation) (standing, error) {
	mine, err := k.Public()
	if err != nil {
		return absent, err
	}
	theirs, err := to.ring.Public(ctx, k.ID)
	if errors.Is(err, keys.ErrNotFound) {
		return absent, nil
	}
	return compare(err == nil, theirs == mine), err
}

func (k key) write(ctx context.Context, to Installation, replace bool) error {
	return to.ring.Take(ctx, k.Moved, replace)
}

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
