package move

import (
	"context"
	"errors"

	"fedpost/internal/keys"
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
