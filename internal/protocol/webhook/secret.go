package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fedpost/internal/keys"
)

// prefix begins a secret as operators write it.
const prefix = "whsec_"

// Sizes of a secret in bytes.
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
const (
	leastSecret = 24
	mostSecret  = 64
)

// ErrBadSecret says what a secret has to be.
var ErrBadSecret = errors.New("is not a secret; give whsec_ and 24 to 64 random bytes in base64")

func NewSecret() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails
	return prefix + base64.StdEncoding.EncodeToString(b)
}

// CheckSecret returns ErrBadSecret if s is not a secret.
func CheckSecret(s string) error {
	_, err := secretKey(s)
	return err
}

func secretKey(s string) ([]byte, error) {
	text, ok := strings.CutPrefix(s, prefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < leastSecret || len(key) > mostSecret {
		return nil, ErrBadSecret
	}
	return key, nil
}

// sealID is what a webhook's secrets are sealed for.
func sealID(id string) string { return "webhook:" + id }

// mostSecrets is how many secrets of a webhook are valid at once.
const mostSecrets = 4

// Replace makes secret the present one. The former one is used for Overlap longer.
func (w *Webhook) Replace(ctx context.Context, sealer keys.Sealer, secret string, now time.Time) error {
	if err := CheckSecret(secret); err != nil {
		return err
	}
	sealed, err := sealer.Seal(ctx, sealID(w.ID), []byte(secret))
	if err != nil {
		return fmt.Errorf("seal the secret of webhook %s: %w", w.ID, err)
	}
	next := []Secret{{Sealed: sealed}}
	for _, former := range w.Secrets {
		if former.Until.IsZero() {
			former.Until = now.Add(Overlap)
		}
		if now.Before(former.Until) && len(next) < mostSecrets {
			next = append(next, former)
		}
	}
	w.Secrets = next
	return nil
}

// opened caches opened secrets, because each opening is a call to KMS.
type opened struct {
	mu   sync.Mutex
	keys map[string][]byte // by what is sealed
}

// mostOpened bounds opened, which is emptied beyond it.
const mostOpened = 4 * MostWebhooks

func (o *opened) of(ctx context.Context, sealer keys.Sealer, w Webhook, now time.Time) (all [][]byte, err error) {
	for _, s := range w.Secrets {
		if !s.Until.IsZero() && !now.Before(s.Until) {
			continue
		}
		name := w.ID + " " + string(s.Sealed)
		o.mu.Lock()
		key := o.keys[name]
		o.mu.Unlock()
		if key == nil {
			text, err := sealer.Open(ctx, sealID(w.ID), s.Sealed)
			if err != nil {
				return nil, fmt.Errorf("open the secret of webhook %s: %w", w.ID, err)
			}
			if key, err = secretKey(string(text)); err != nil {
				return nil, fmt.Errorf("the secret of webhook %s: %w", w.ID, err)
			}
			o.mu.Lock()
			if o.keys == nil || len(o.keys) >= mostOpened {
				o.keys = map[string][]byte{}
			}
			o.keys[name] = key
			o.mu.Unlock()
		}
		all = append(all, key)
	}
	return all, nil
}

// signature is the value of webhook-signature: one signature for each key.
func signature(all [][]byte, id string, at time.Time, body string) string {
	var list []string
	for _, key := range all {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, strconv.FormatInt(at.Unix(), 10), body)
		list = append(list, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(list, " ")
}

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
