package activity

import (
	"crypto/sha256"
	"io"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"
)

// ID identifies one accepted activity: a ULID, so that ids sort by the time they were made.
type ID string

// NewID returns a fresh id for now, with its random part read from entropy.
func NewID(now time.Time, entropy io.Reader) (ID, error) {
	u, err := ulid.New(ulid.Timestamp(now), entropy)
	if err != nil {
		return "", err
	}
	return ID(u.String()), nil
}

// InBatch returns the id of the i-th activity of a call, derived from base, the id of the first.
func InBatch(base ID, i int) ID {
	if i == 0 {
		return base
	}
	return DerivedID(base.Time(), string(base)+"#"+strconv.Itoa(i))
}

// DerivedID returns the one id that stands for name at the instant at: callers that share both get the same
// id.
func DerivedID(at time.Time, name string) ID {
	var u ulid.ULID
	sum := sha256.Sum256([]byte(name))
	if err := u.SetTime(ulid.Timestamp(at)); err != nil {
		// Only years past 10889 overflow a ULID's 48 bits of milliseconds.
		panic("activity: time beyond the range of a ULID: " + at.String())
	}
	copy(u[6:], sum[:10])
	return ID(u.String())
}

// ParseID reads an id as a client sent it.
func ParseID(s string) (ID, error) {
	u, err := ulid.ParseStrict(s)
	if err != nil {
		return "", err
	}
	return ID(u.String()), nil
}

// Time is when the id was made, to the millisecond; zero if i is no id.
func (i ID) Time() time.Time {
	u, err := ulid.ParseStrict(string(i))
	if err != nil {
		return time.Time{}
	}
	return ulid.Time(u.Time()).UTC()
}
