package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// proofID is the id under which a store keeps the proof of its sealing key. CheckID refuses it for others.
const proofID = ""

var proof = []byte("fedpost")

// Errors of OpenLocalSealerOf: the store has keys that the file cannot open.
var (
	ErrSealingKeyGone  = errors.New("the sealing key is missing")
	ErrSealingKeyOther = errors.New("this is not the sealing key that the stored keys were sealed with")
)

// OpenLocalSealerOf is OpenLocalSealer for a store: it makes a sealing key only for a store that has never
// had one. The store keeps a proof, a known text sealed with its sealing key, so that a missing or replaced
// file is noticed at start: the error wraps ErrSealingKeyGone or ErrSealingKeyOther.
func OpenLocalSealerOf(ctx context.Context, path string, store Store) (*LocalSealer, error) {
	s, err := ProvenLocalSealer(ctx, path, store)
	if s == nil && err == nil {
		return firstSealer(ctx, path, store)
	}
	return s, err
}

// ProvenLocalSealer is OpenLocalSealerOf for a store that is only read; nil if the store has never had a
// sealing key.
func ProvenLocalSealer(ctx context.Context, path string, store Store) (*LocalSealer, error) {
	stored, err := store.Key(ctx, proofID)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look up the proof of the sealing key: %w", err)
	}
	key, err := readSealingKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: the stored signing keys were sealed with %s. Restore the file from the backup that the database is of, or copy it from another process on the same database; "+
			"if it is lost, move the database away, too, begin anew, and store the signing keys again", ErrSealingKeyGone, path)
	}
	if err != nil {
		return nil, fmt.Errorf("read sealing key: %w", err)
	}
	s, err := newLocalSealer(key)
	if err != nil {
		return nil, err
	}
	opened, err := s.Open(ctx, proofID, stored.Private)
	if err != nil || !bytes.Equal(opened, proof) {
		return nil, fmt.Errorf("%w: %s. Restore the file from the backup that the database is of, or copy it from another process on the same database", ErrSealingKeyOther, path)
	}
	return s, nil
}

// firstSealer opens the sealing key of a store without a proof, and writes one. If another process has
// written one meanwhile, the key has to open that.
func firstSealer(ctx context.Context, path string, store Store) (*LocalSealer, error) {
	s, err := OpenLocalSealer(path)
	if err != nil {
		return nil, err
	}
	sealed, err := s.Seal(ctx, proofID, proof)
	if err != nil {
		return nil, fmt.Errorf("seal the proof of the sealing key: %w", err)
	}
	err = store.PutKey(ctx, Sealed{ID: proofID, Private: sealed, CreatedAt: time.Now().UTC()}, false)
	if errors.Is(err, ErrExists) {
		return ProvenLocalSealer(ctx, path, store)
	}
	if err != nil {
		return nil, fmt.Errorf("store the proof of the sealing key: %w", err)
	}
	return s, nil
}
