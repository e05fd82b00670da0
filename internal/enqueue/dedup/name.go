package dedup

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"fedpost/internal/engine/queue"
)

// Name is a deduplication key with the namespace it counts in: the same key on
// another queue, or for another operation, is another key.
type Name struct {
	Queue     queue.Name
	Operation string
	Key       string
}

// Hash is a short stand-in for the name that any store or queue takes: 43
// characters of the URL-safe alphabet. The key itself may be any string, and
// may well be something that has no business in a table's keys.
func (n Name) Hash() string {
	h := sha256.New()
	for _, part := range []string{string(n.Queue), n.Operation, n.Key} {
		// Lengths go in too: ("a", "bc") is not ("ab", "c").
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
