package client

import (
	"strconv"
	"time"
)

// Duration is a time.Duration that travels as ISO 8601, such as "PT90S".
type Duration time.Duration

// String is d in ISO 8601.
func (d Duration) String() string {
	return "PT" + strconv.FormatFloat(time.Duration(d).Seconds(), 'f', -1, 64) + "S"
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
