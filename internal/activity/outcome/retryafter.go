package outcome

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Bounds of the pause that a host may ask for.
const (
	// MaxPause is the longest pause honoured, which is the longest wait that a queue can hold.
	MaxPause = 12 * time.Hour
	// DefaultPause is for a 429 that names no time.
	DefaultPause = time.Minute
)

// rounded is added to each pause: a server may round its time down to seconds.
const rounded = time.Second

// RetryAfter reads a Retry-After header, seconds or an HTTP date (RFC 9110, sections 10.2.3 and 5.6.7), and
// returns when the next try may be made: a second after the time named, and at most MaxPause from now. ok is
// false for a value that is absent, malformed, zero or past.
func RetryAfter(value string, now time.Time) (at time.Time, ok bool) {
	value = strings.TrimSpace(value)
	if value == "" {
		return time.Time{}, false
	}
	var pause time.Duration
	if isDigits(value) {
		pause = MaxPause
		// More digits are beyond MaxPause and would overflow.
		if s, err := strconv.ParseInt(value, 10, 64); err == nil && s < int64(MaxPause/time.Second) {
			pause = time.Duration(s) * time.Second
		}
	} else {
		date, err := http.ParseTime(value)
		if err != nil {
			return time.Time{}, false
		}
		pause = date.Sub(now)
	}
	return endOf(pause, now)
}

// endOf returns when a pause ends that begins now; false if it is over.
func endOf(pause time.Duration, now time.Time) (time.Time, bool) {
	if pause <= 0 {
		return time.Time{}, false
	}
	return now.Add(min(pause, MaxPause-rounded) + rounded), true
}

// RateLimitReset reads an X-RateLimit-Reset header, which no standard defines: a time as ISO 8601 (Mastodon,
// GoToSocial), seconds since 1970, or, if the number is too small for that, seconds from now. The result is
// that of RetryAfter.
func RateLimitReset(value string, now time.Time) (at time.Time, ok bool) {
	value = strings.TrimSpace(value)
	if isDigits(value) {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 1e9 {
			return RetryAfter(value, now)
		}
		if n >= 1e12 {
			n /= 1000 // milliseconds, as JavaScript counts
		}
		at = time.Unix(n, 0)
	} else {
		var err error
		if at, err = time.Parse(time.RFC3339, value); err != nil {
			at, err = time.Parse("2006-01-02T15:04:05", value)
		}
		if err != nil {
			return time.Time{}, false
		}
	}
	return endOf(at.Sub(now), now)
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
