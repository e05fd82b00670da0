package api

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sosodev/duration"
)

var errDuration = errors.New(`is not a duration: give ISO 8601, such as "PT1H30M" or "P2D", or seconds`)

// parseDuration reads a duration in ISO 8601 or in seconds.
func parseDuration(value json.RawMessage) (time.Duration, error) {
	if value[0] != '"' {
		return seconds(string(value))
	}
	s, fault := text(value)
	if fault != "" {
		return 0, errDuration
	}
	if s != "" && strings.Trim(s, "0123456789") == "" {
		return seconds(s)
	}
	d, err := duration.Parse(s)
	switch {
	case err != nil || strings.HasSuffix(s, "P") || strings.HasSuffix(s, "T"):
		return 0, errDuration
	case d.Years != 0 || d.Months != 0:
		return 0, errors.New("has years or months, which differ in length; give days")
	case d.Negative:
		return 0, errors.New("is negative")
	}
	return whole(d.Weeks*7*24*3600 + d.Days*24*3600 + d.Hours*3600 + d.Minutes*60 + d.Seconds)
}

func seconds(s string) (time.Duration, error) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, errDuration
	}
	if n < 0 {
		return 0, errors.New("is negative")
	}
	return whole(n)
}

// whole turns seconds into a duration, to the millisecond.
func whole(s float64) (time.Duration, error) {
	if !(s < math.MaxInt64/float64(time.Second)) {
		return 0, errors.New("is longer than any limit")
	}
	return time.Duration(math.Round(s*1000)) * time.Millisecond, nil
}
