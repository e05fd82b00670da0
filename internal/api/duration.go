package api

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"fedpost/internal/api/iso8601"
)

// parseDuration reads a duration in ISO 8601, without years and months, in the notations of
// settings (iso8601.Short), or in seconds.
func parseDuration(value json.RawMessage) (time.Duration, error) {
	if value[0] != '"' {
		return seconds(string(value))
	}
	s, fault := text(value)
	if fault != "" {
		return 0, iso8601.ErrFormat
	}
	if s != "" && strings.Trim(s, "0123456789") == "" {
		return seconds(s)
	}
	if d, ok := iso8601.Short(s); ok {
		if d < 0 {
			return 0, iso8601.ErrNegative
		}
		return iso8601.Seconds(d.Seconds())
	}
	d, err := iso8601.Parse(s)
	switch {
	case err != nil:
		return 0, err
	case d.Years != 0 || d.Months != 0:
		return 0, errors.New("has years or months, which differ in length; give days")
	case d.Negative:
		return 0, iso8601.ErrNegative
	}
	return iso8601.Seconds(d.Weeks*7*24*3600 + d.Days*24*3600 + d.Hours*3600 + d.Minutes*60 + d.Seconds)
}

func seconds(s string) (time.Duration, error) {
	n, err := strconv.ParseFloat(s, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, iso8601.ErrTooLong
	}
	if err != nil {
		return 0, iso8601.ErrFormat
	}
	return iso8601.Seconds(n)
}
