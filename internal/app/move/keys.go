package move

import (
	"context"
	"errors"

	"fedpost/internal/keys"
)

// keys exports the signing keys.
func (from Installation) keys(ctx context.Context, put func(line) error) error {
	return pages(func(cursor string) (string, error) {
		all, next, err := from.ring.List(ctx, cursor, page)
		if err != nil {
			return "", err
		}
		for _, k := range all {
			m, err := keys.Reveal(ctx, from.store, from.sealer, k.ID)
			if errors.Is(err, keys.ErrNotFound) {
				continue // deleted meanwhile
			}
			if err != nil {
				return "", err
			}
			if err := put(line{Key: &m}); err != nil {
				return "", err
			}
		}
		return next, nil
	})
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
