package webhook

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"fedpost/internal/keys"
)

// Moved is a webhook on its way to another installation, where its secrets are sealed anew. Its cursor
// is not exported.
type Moved struct {
	ID        string        `json:"id"`
	URL       string        `json:"url"`
	Types     []string      `json:"types,omitempty"`
	Batch     bool          `json:"batch,omitempty"`
	Secrets   []MovedSecret `json:"secrets"`
	CreatedAt time.Time     `json:"created"`

	FailingSince time.Time `json:"failing,omitzero"`
	LastError    string    `json:"error,omitempty"`
	DisabledAt   time.Time `json:"disabled,omitzero"`
}

type MovedSecret struct {
	Secret string    `json:"secret"`
	Until  time.Time `json:"until,omitzero"`
}

// Reveal opens a webhook's valid secrets, to move them to another installation. Only package move calls
// it; see keys.Reveal.
func Reveal(ctx context.Context, sealer keys.Sealer, w Webhook, now time.Time) (Moved, error) {
	m := Moved{
		ID: w.ID, URL: w.URL, Types: w.Types, Batch: w.Batch, CreatedAt: w.CreatedAt,
		FailingSince: w.FailingSince, LastError: w.LastError, DisabledAt: w.DisabledAt,
	}
	for _, s := range w.Secrets {
		if !s.Until.IsZero() && !now.Before(s.Until) {
			continue
		}
		text, err := sealer.Open(ctx, sealID(w.ID), s.Sealed)
		if err != nil {
			return Moved{}, fmt.Errorf("open the secret of webhook %s: %w", w.ID, err)
		}
		m.Secrets = append(m.Secrets, MovedSecret{string(text), s.Until})
	}
	return m, nil
}

// Check returns an error if m is no webhook.
func (m Moved) Check() error {
	if !ValidID(m.ID) {
		return fmt.Errorf("%q is not the id of a webhook", m.ID)
	}
	if u, err := url.Parse(m.URL); err != nil || u.Host == "" {
		return fmt.Errorf("webhook %s has no URL", m.ID)
	}
	if len(m.Secrets) == 0 || len(m.Secrets) > mostSecrets {
		return fmt.Errorf("webhook %s has %d secrets: 1 to %d", m.ID, len(m.Secrets), mostSecrets)
	}
	for _, s := range m.Secrets {
		if err := CheckSecret(s.Secret); err != nil {
			return fmt.Errorf("webhook %s: a secret %w", m.ID, err)
		}
	}
	return nil
}

// Same reports whether an operator has set the same of both. Former secrets and failures do not count.
func (m Moved) Same(o Moved) bool {
	return m.ID == o.ID && m.URL == o.URL && slices.Equal(m.Types, o.Types) && m.Batch == o.Batch &&
		len(m.Secrets) > 0 && len(o.Secrets) > 0 && m.Secrets[0].Secret == o.Secrets[0].Secret
}

// Sealed is m as it is stored in place of w, which is new or the one to replace. A new one gets the
// events after cursor.
func (m Moved) Sealed(ctx context.Context, sealer keys.Sealer, w Webhook, cursor string) (Webhook, error) {
	n := Webhook{
		ID: m.ID, URL: m.URL, Types: m.Types, Batch: m.Batch, CreatedAt: m.CreatedAt,
		FailingSince: m.FailingSince, LastError: m.LastError, DisabledAt: m.DisabledAt,
		Cursor: w.Cursor, Version: w.Version,
	}
	if w.Version == "" {
		n.Cursor = cursor
	}
	for _, s := range m.Secrets {
		sealed, err := sealer.Seal(ctx, sealID(m.ID), []byte(s.Secret))
		if err != nil {
			return Webhook{}, fmt.Errorf("seal the secret of webhook %s: %w", m.ID, err)
		}
		n.Secrets = append(n.Secrets, Secret{Sealed: sealed, Until: s.Until})
	}
	return n, nil
}
