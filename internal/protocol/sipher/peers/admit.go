package peers

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/wire"
)

// Admit registers a server under the keys it shows; via is Discovered or Registered. If it is
// known, only LastSeen and UpdatedAt change. If it is known with other keys, the error wraps
// ErrKeyChanged, and the attempt is recorded, unless a stranger registers itself.
func Admit(ctx context.Context, store Store, shown wire.Card, via string, now time.Time) (Server, error) {
	s := Server{
		URL: shown.URL, PublicKey: shown.PublicKey, EncryptionKey: shown.EncryptionKey,
		LastSeen: now, CreatedAt: now, UpdatedAt: now, IsHealthy: true,
		Stranger: via == Registered,
		// Whom we discover is asked to register us after this write. Whoever registers itself has
		// discovered us before.
		Unannounced: via == Discovered,
	}
	existing, inserted, err := store.Insert(ctx, s)
	if err != nil {
		return Server{}, fmt.Errorf("register %s: %w", shown.URL, err)
	}
	if inserted {
		return s, nil
	}
	if !shown.SameKeys(wire.Card{PublicKey: existing.PublicKey, EncryptionKey: existing.EncryptionKey}) {
		return Server{}, refuse(ctx, store, existing, shown, via, now)
	}
	if err := store.Seen(ctx, shown.URL, now); err != nil {
		return Server{}, fmt.Errorf("register %s: %w", shown.URL, err)
	}
	existing.LastSeen, existing.UpdatedAt = now, now
	return existing, nil
}

func refuse(ctx context.Context, store Store, known Server, shown wire.Card, via string, now time.Time) error {
	refusal := fmt.Errorf("%w: %s is registered with signing key %.16s and encryption key %.16s, and shows %.16s and %.16s (fingerprints)",
		ErrKeyChanged, shown.URL, crypto.Fingerprint(known.PublicKey), crypto.Fingerprint(known.EncryptionKey),
		crypto.Fingerprint(shown.PublicKey), crypto.Fingerprint(shown.EncryptionKey))
	if known.Stranger && via == Registered {
		// Only logged: anybody can register any number of servers and change their keys.
		return refusal
	}
	err := store.RecordKeyChange(ctx, KeyChange{
		URL: shown.URL, PublicKey: shown.PublicKey, EncryptionKey: shown.EncryptionKey,
		Via: via, First: now, Last: now, Count: 1,
	})
	if err != nil {
		return fmt.Errorf("%w; recording that failed: %w", refusal, err)
	}
	return refusal
}
