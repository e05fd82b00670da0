package local

import (
	"context"
	"errors"
	"time"

	"fedpost/internal/engine/sqlite"
	"fedpost/internal/keys"
	"fedpost/internal/store"
)

// CheckSealingKey returns an error that wraps keys.ErrSealingKeyOther or
// keys.ErrSealingKeyGone unless the file sealingKey opens the signing keys of a database. The
// database may be in use.
func CheckSealingKey(ctx context.Context, database, sealingKey string) (err error) {
	e, err := sqlite.OpenToRead(ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	_, err = keys.ProvenLocalSealer(ctx, sealingKey, store.New(e.Table(), time.Now))
	return err
}
