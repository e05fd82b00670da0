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
}

const rounds, signatures = 5, 100 // a round

// MeasureUnits takes about half a second.
func MeasureUnits() (Units, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return Units{}, fmt.Errorf("key for measuring the machine: %w", err)
	}
	digest, took := sha256.Sum256([]byte("fedpost")), make([]float64, rounds)
	for round := range took {
		begin := clock()
		for range signatures {
			if _, err := key.Sign(rand.Reader, digest[:], crypto.SHA256); err != nil {
				return Units{}, fmt.Errorf("measure the machine: %w", err)
			}
		}
		took[round] = (clock() - begin).Seconds() / signatures
	}
	return Units{slices.Min(took)}, nil
}
