package local

import (
	"context"
	"errors"
	"time"

	"fedpost/internal/engine/sqlite"
	"fedpost/internal/keys"
	"fedpost/internal/store"
)

// CheckSealingKey checks that the file sealingKey opens the signing keys of a database, which
// may be in use. Its errors wrap keys.ErrSealingKeyOther or keys.ErrSealingKeyGone.
func CheckSealingKey(ctx context.Context, database, sealingKey string) (err error) {
	e, err := sqlite.OpenToRead(ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	_, err = keys.ProvenLocalSealer(ctx, sealingKey, store.New(e.Table(), time.Now))
	return err
}
