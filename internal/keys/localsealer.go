package keys

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// formatLocal is the first byte of everything that LocalSealer seals, so that another format can follow.
const formatLocal = 1

const sealingKeySize = 32

// LocalSealer seals with AES-256-GCM under a key in a file, where there is no KMS. It protects a copied
// database, not a copied data folder.
type LocalSealer struct{ aead cipher.AEAD }

// ErrCannotOpen says that a sealed key does not open: it was sealed with another sealing key or for
// another id, or is damaged.
var ErrCannotOpen = errors.New("sealed with another sealing key, or damaged")

// OpenLocalSealer reads the sealing key from a file, which it makes with mode 0600 if there is none. A
// file that others can read is refused.
func OpenLocalSealer(path string) (*LocalSealer, error) {
	key, err := readSealingKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeSealingKey(path); err != nil {
			return nil, fmt.Errorf("make sealing key: %w", err)
		}
		key, err = readSealingKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read sealing key: %w", err)
	}
	return newLocalSealer(key)
}

// newLocalSealer seals with key, which it clears.
func newLocalSealer(key []byte) (*LocalSealer, error) {
	defer clear(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("use sealing key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("use sealing key: %w", err)
	}
	return &LocalSealer{aead}, nil
}

// credentialMode is the mode of a credential of systemd: its group bits are the mask of an access list
// that has the service's user only.
const credentialMode = 0o440

// ofSystemd reports whether a file is a credential that systemd gives to a service
// (https://systemd.io/CREDENTIALS/): to this process, or to another one.
func ofSystemd(path string) bool {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return false
	}
	own := os.Getenv("CREDENTIALS_DIRECTORY")
	return own != "" && dir == filepath.Clean(own) || filepath.Dir(dir) == "/run/credentials"
}

func readSealingKey(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if p := info.Mode().Perm(); p&0o077 != 0 && (p != credentialMode || !ofSystemd(path)) {
		return nil, fmt.Errorf("%s can be read by others (mode %o): chmod 600 it", path, info.Mode().Perm())
	}
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(key) != sealingKeySize {
		return nil, fmt.Errorf("%s has %d bytes, a sealing key has %d", path, len(key), sealingKeySize)
	}
	return key, nil
}

// makeSealingKey writes the key to a temporary file and links that file into place. So the file is never
// incomplete, and two processes that make it at once both use the first.
func makeSealingKey(path string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".sealing-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, os.Remove(f.Name()))
	}()
	key := make([]byte, sealingKeySize)
	defer clear(key)
	rand.Read(key)
	_, err = f.Write(key)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func (s *LocalSealer) Seal(_ context.Context, keyID string, plaintext []byte) ([]byte, error) {
	return s.aead.Seal([]byte{formatLocal}, nil, plaintext, []byte(keyID)), nil
}

// Open returns ErrCannotOpen if sealed does not open.
func (s *LocalSealer) Open(_ context.Context, keyID string, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != formatLocal {
		return nil, ErrCannotOpen
	}
	plaintext, err := s.aead.Open(nil, nil, sealed[1:], []byte(keyID))
	if err != nil {
		return nil, ErrCannotOpen
	}
	return plaintext, nil
}

// proofID is the id under which a store keeps the proof of its sealing key. CheckID refuses it for others.
const proofID = ""

var proof = []byte("fedpost")

// Errors of OpenLocalSealerOf: the store has keys that the file cannot open.
var (
	ErrSealingKeyGone  = errors.New("the sealing key is missing")
	ErrSealingKeyOther = errors.New("this is not the sealing key that the stored keys were sealed with")
)

// SealingKey is where a process has its sealing key from: Given, if that is not empty, or else the file.
type SealingKey struct {
	File  string
	Given []byte
}

func (k SealingKey) String() string {
	if len(k.Given) > 0 {
		return "the sealing key of the settings"
	}
	return k.File
}

func (k SealingKey) read() ([]byte, error) {
	if len(k.Given) > 0 {
		return bytes.Clone(k.Given), nil
	}
	return readSealingKey(k.File)
}

// OpenLocalSealerOf is OpenLocalSealer for a store: it makes a sealing key only for a store that has never
// had one. The store keeps a proof, a known text sealed with its sealing key, so that a missing or replaced
// file is noticed at start: the error wraps ErrSealingKeyGone or ErrSealingKeyOther.
func OpenLocalSealerOf(ctx context.Context, from SealingKey, store Store) (*LocalSealer, error) {
	s, err := ProvenLocalSealer(ctx, from, store)
	if s == nil && err == nil {
		return firstSealer(ctx, from, store)
	}
	return s, err
}

// ProvenLocalSealer is OpenLocalSealerOf for a store that is only read; nil if the store has never had a
// sealing key.
func ProvenLocalSealer(ctx context.Context, from SealingKey, store Store) (*LocalSealer, error) {
	stored, err := store.Key(ctx, proofID)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look up the proof of the sealing key: %w", err)
	}
	key, err := from.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: the stored signing keys were sealed with %s. Restore the file from the backup that the database is of, or copy it from another process on the same database; "+
			"if it is lost, move the database away, too, begin anew, and store the signing keys again", ErrSealingKeyGone, from)
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
		return nil, fmt.Errorf("%w: %s. Restore the file from the backup that the database is of, or copy it from another process on the same database", ErrSealingKeyOther, from)
	}
	return s, nil
}

// firstSealer opens the sealing key of a store without a proof, and writes one. If another process has
// written one meanwhile, the key has to open that.
func firstSealer(ctx context.Context, from SealingKey, store Store) (*LocalSealer, error) {
	open := func() (*LocalSealer, error) { return OpenLocalSealer(from.File) }
	if len(from.Given) > 0 {
		open = func() (*LocalSealer, error) { return newLocalSealer(bytes.Clone(from.Given)) }
	}
	s, err := open()
	if err != nil {
		return nil, err
	}
	sealed, err := s.Seal(ctx, proofID, proof)
	if err != nil {
		return nil, fmt.Errorf("seal the proof of the sealing key: %w", err)
	}
	err = store.PutKey(ctx, Sealed{ID: proofID, Private: sealed, CreatedAt: time.Now().UTC()}, false)
	if errors.Is(err, ErrExists) {
		return ProvenLocalSealer(ctx, from, store)
	}
	if err != nil {
		return nil, fmt.Errorf("store the proof of the sealing key: %w", err)
	}
	return s, nil
}
