package bench

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"fmt"
	"slices"
)

// Units are what this machine needs for known work, in seconds of one processor. They are
// the least of several rounds: whatever else the machine does only adds to them. On Unix
// they are processor time, as are the server's figures.
type Units struct {
	Signature float64 `json:"rsa2048SignatureSeconds"` // of Go's crypto/rsa
	Hash      float64 `json:"sha256MiBSeconds"`        // of Go's crypto/sha256
}

// rounds is how often the work of a unit is repeated.
const rounds = 5

// MeasureUnits takes about half a second.
func MeasureUnits() (Units, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return Units{}, fmt.Errorf("key for measuring the machine: %w", err)
	}
	digest, block := sha256.Sum256([]byte("fedpost")), make([]byte, 1<<20)
	var u Units
	u.Signature, err = unit(100, func() error {
		_, err := key.Sign(rand.Reader, digest[:], crypto.SHA256)
		return err
	})
	if err != nil {
		return u, fmt.Errorf("measure the machine: %w", err)
	}
	u.Hash, err = unit(100, func() error { sha256.Sum256(block); return nil })
	return u, err
}

// unit is how long work takes, done n times a round, in the quickest round.
func unit(n int, work func() error) (float64, error) {
	took := make([]float64, rounds)
	for round := range took {
		begin := clock()
		for range n {
			if err := work(); err != nil {
				return 0, err
			}
		}
		took[round] = seconds(clock()-begin) / float64(n)
	}
	return slices.Min(took), nil
}
