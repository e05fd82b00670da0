package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// Digest derives an id of 64 characters from any strings, for engines that keep messages
// themselves. SQS's engine hashes keys too, because SQS takes at most 128 characters of a
// small set.
func Digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// CeilMilli is d in milliseconds, rounded up: nothing becomes visible before it was asked for.
func CeilMilli(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
