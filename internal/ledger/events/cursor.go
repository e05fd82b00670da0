package events

import (
	"encoding/base64"
	"encoding/binary"
)

// Shards is how many logs the feed has. A log takes some dozens of writes a second. More logs make
// polling the feed more expensive, because a poll reads the end of each.
const Shards = 8

// Position is a place in a log: after the item Number or, if Within is not 0, after the
// first Within events of that item.
type Position struct {
	Number uint64
	Within int
}

// Cursor is a place in the feed: one in each log.
type Cursor [Shards]Position

// cursorVersion is the first byte of a cursor. It changes with the number of logs.
const cursorVersion = 1

// String is the cursor as readers get it.
func (c Cursor) String() string {
	b := []byte{cursorVersion}
	for _, p := range c {
		b = binary.AppendUvarint(b, p.Number)
		b = binary.AppendUvarint(b, uint64(p.Within))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor reads what String has written. An empty string is the beginning of the feed.
func ParseCursor(s string) (c Cursor, err error) {
	if s == "" {
		return c, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) == 0 || b[0] != cursorVersion {
		return c, ErrBadCursor
	}
	b = b[1:]
	next := func() (uint64, bool) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, false
		}
		b = b[n:]
		return v, true
	}
	for i := range c {
		number, ok1 := next()
		within, ok2 := next()
		if !ok1 || !ok2 || number > 1<<62 || within > MostInItem {
			return Cursor{}, ErrBadCursor
		}
		c[i] = Position{number, int(within)}
	}
	if len(b) > 0 {
		return Cursor{}, ErrBadCursor
	}
	return c, nil
}

// Back returns the cursor that is a number of items before c in each log, or at its beginning.
func (c Cursor) Back(items uint64) Cursor {
	for i, p := range c {
		c[i] = Position{Number: p.Number - min(items, p.Number)}
	}
	return c
}

// MostInItem is how many events one item of a log has at most.
const MostInItem = 100
