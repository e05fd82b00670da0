package dedup

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"fedpost/internal/engine/queue"
)

// Name is a deduplication key with its namespace: the same key on another queue,
// or for another operation, is another key.
type Name struct {
	Queue     queue.Name
	Operation string
	Key       string
}

// Hash returns 43 characters of the URL-safe alphabet for use in stores and queues: the key
// itself may be any string.
func (n Name) Hash() string {
	h := sha256.New()
	for _, part := range []string{string(n.Queue), n.Operation, n.Key} {
		// With the lengths, ("a", "bc") differs from ("ab", "c").
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
