// Package claimcheck stores payloads that are too large for a queue message or a table item: deflated, in
// parts that each fit into an item. A reference travels in the payload's place.
//
// A list of 50,000 inboxes is a few MiB of similar URLs, which deflate to a tenth. So the table keeps it in
// a handful of items, and fedpost needs no further service such as S3.
package claimcheck

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// PartSize is the largest part in bytes; DynamoDB's item has 400 KiB with its key.
const PartSize = 350 << 10

// MaxSize is the largest payload in bytes: more than any request can make, and a bound on what a damaged
// part can inflate to.
const MaxSize = 64 << 20

// Errors of this package.
var (
	// ErrNotFound: a part is missing, because the payload's retention has passed.
	ErrNotFound = errors.New("stored payload not found")
	// ErrDamaged: the parts do not make a payload.
	ErrDamaged = errors.New("stored payload is damaged")
)

// Store keeps parts.
type Store interface {
	// PutParts stores the parts of ref, numbered from 0, until forget. It may be repeated.
	PutParts(ctx context.Context, ref string, parts [][]byte, forget time.Time) error
	// Parts returns the n parts of ref in order, or ErrNotFound if one is missing.
	Parts(ctx context.Context, ref string, n int) ([][]byte, error)
}

// Put stores payload under ref and returns the number of its parts.
func Put(ctx context.Context, s Store, ref, payload string, forget time.Time) (int, error) {
	if len(payload) > MaxSize {
		return 0, fmt.Errorf("payload of %d bytes, at most %d", len(payload), MaxSize)
	}
	parts := Pack(payload)
	if err := s.PutParts(ctx, ref, parts, forget); err != nil {
		return 0, fmt.Errorf("store payload %s: %w", ref, err)
	}
	return len(parts), nil
}

// Get returns the payload that was stored under ref in n parts.
func Get(ctx context.Context, s Store, ref string, n int) (string, error) {
	parts, err := s.Parts(ctx, ref, n)
	if err != nil {
		return "", fmt.Errorf("read payload %s: %w", ref, err)
	}
	payload, err := Unpack(parts)
	if err != nil {
		return "", fmt.Errorf("read payload %s: %w", ref, err)
	}
	return payload, nil
}

// Pack deflates payload and cuts it into parts of at most PartSize.
func Pack(payload string) [][]byte { return slices.Collect(slices.Chunk(Deflate(payload), PartSize)) }

// Unpack returns the payload whose parts Pack made. Its error wraps ErrDamaged.
func Unpack(parts [][]byte) (string, error) { return Inflate(bytes.Join(parts, nil)) }

// Deflate compresses s. It ignores errors: those of flate are of an unknown level or of the writer, and a
// bytes.Buffer has none.
func Deflate(s string) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.DefaultCompression)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.Bytes()
}

// Inflate is Deflate's counterpart. Its error wraps ErrDamaged.
func Inflate(packed []byte) (string, error) { return inflate(packed, MaxSize) }

func inflate(packed []byte, most int64) (string, error) {
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(flate.NewReader(bytes.NewReader(packed)), most+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrDamaged, err)
	case n > most:
		return "", fmt.Errorf("%w: more than %d bytes", ErrDamaged, most)
	}
	return b.String(), nil
}
