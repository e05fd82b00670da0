// Package iso8601 reads durations as requests and settings write them. The library that does
// the reading also takes what ISO 8601 does not allow, so the grammar is checked first.
package iso8601

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sosodev/duration"
)

// longest is the longest duration that is read, some 292 years.
const longest = math.MaxInt64 / time.Second * time.Second

// Errors of Parse and Seconds complete the sentence "delay …".
var (
	ErrFormat   = errors.New(`is not a duration: give ISO 8601, such as "PT1H30M" or "P2D", or 90s, 1h30m or 2d, or seconds`)
	ErrTooLong  = errors.New("is longer than any limit")
	ErrNegative = errors.New("is negative")
)

// grammar is the grammar of ISO 8601: each unit once and in order, and a fraction in the
// smallest unit only. The library that is used after it would read PT1H1H as two hours.
var grammar = regexp.MustCompile(`^-?P(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(\d+H)?(\d+M)?(\d+S)?)?$`)

// fraction matches a fraction of the last number.
var fraction = regexp.MustCompile(`(\d)[.]\d+([A-Z])$`)

// Parse reads ISO 8601 into its units; the caller decides how long a month is. Its
// errors are ErrFormat.
func Parse(s string) (*duration.Duration, error) {
	whole := fraction.ReplaceAllString(s, "$1$2")
	if !grammar.MatchString(whole) || strings.HasSuffix(whole, "P") || strings.HasSuffix(whole, "T") {
		return nil, ErrFormat
	}
	d, err := duration.Parse(s)
	if err != nil {
		return nil, ErrFormat
	}
	return d, nil
}

// short is the grammar of Short except days: without Go's "+", fractions of a millisecond and
// numbers that begin or end with a dot.
var short = regexp.MustCompile(`^-?(\d+([.]\d+)?(h|m|s|ms))+$`)

// Short reads durations as Go writes them, such as 1h30m, and whole days, such as 2d.
func Short(s string) (time.Duration, bool) {
	if d, err := time.ParseDuration(s); err == nil && short.MatchString(s) {
		return d, true
	}
	days, ok := strings.CutSuffix(s, "d")
	n, err := strconv.ParseInt(days, 10, 32)
	if !ok || err != nil || n > int64(longest/(24*time.Hour)) {
		return 0, false
	}
	return time.Duration(n) * 24 * time.Hour, true
}

// Seconds turns seconds into a duration, to the millisecond. Its errors are
// ErrFormat (no number), ErrNegative and ErrTooLong.
func Seconds(s float64) (time.Duration, error) {
	switch {
	case s != s:
		return 0, ErrFormat
	case s < 0:
		return 0, ErrNegative
	case s > longest.Seconds():
		return 0, ErrTooLong
	}
	return time.Duration(math.Round(s*1000)) * time.Millisecond, nil
}
