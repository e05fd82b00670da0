package contract

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sosodev/duration"
)

// Duration is a time.Duration that travels as ISO 8601, such as "PT90S".
type Duration time.Duration

// String is d in ISO 8601.
func (d Duration) String() string {
	return "PT" + strconv.FormatFloat(time.Duration(d).Seconds(), 'f', -1, 64) + "S"
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// MaxDuration is the longest duration that is read, some 292 years.
const MaxDuration = math.MaxInt64 / time.Second * time.Second

// Errors of ParseISO and Seconds complete the sentence "delay …".
var (
	ErrDuration = errors.New(`is not a duration: give ISO 8601, such as "PT1H30M" or "P2D", or seconds`)
	ErrTooLong  = errors.New("is longer than any limit")
	ErrNegative = errors.New("is negative")
)

// grammar is the grammar of ISO 8601: each unit once and in order, and a fraction in the
// smallest unit only. The library that is used after it would read PT1H1H as two hours.
var grammar = regexp.MustCompile(`^-?P(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(\d+H)?(\d+M)?(\d+S)?)?$`)

// fraction is behind the last number.
var fraction = regexp.MustCompile(`(\d)[.]\d+([A-Z])$`)

// ISO is a duration as ISO 8601 writes it.
type ISO = duration.Duration

// ParseISO reads ISO 8601 into its units; the caller decides how long a month is. Its
// errors are ErrDuration.
func ParseISO(s string) (*ISO, error) {
	whole := fraction.ReplaceAllString(s, "$1$2")
	if !grammar.MatchString(whole) || strings.HasSuffix(whole, "P") || strings.HasSuffix(whole, "T") {
		return nil, ErrDuration
	}
	d, err := duration.Parse(s)
	if err != nil {
		return nil, ErrDuration
	}
	return d, nil
}

// Seconds turns seconds into a duration, to the millisecond. Its errors are
// ErrDuration (no number), ErrNegative and ErrTooLong.
func Seconds(s float64) (time.Duration, error) {
	switch {
	case s != s:
		return 0, ErrDuration
	case s < 0:
		return 0, ErrNegative
	case s > MaxDuration.Seconds():
		return 0, ErrTooLong
	}
	return time.Duration(math.Round(s*1000)) * time.Millisecond, nil
}
