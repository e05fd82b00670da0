package keys

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
