package api

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"fedpost/internal/api/contract"
)

// parseDuration reads a duration in ISO 8601, without years and months, or in
// seconds.
func parseDuration(value json.RawMessage) (time.Duration, error) {
	if value[0] != '"' {
		return seconds(string(value))
	}
	s, fault := text(value)
	if fault != "" {
		return 0, contract.ErrDuration
	}
	if s != "" && strings.Trim(s, "0123456789") == "" {
		return seconds(s)
	}
	d, err := contract.ParseISO(s)
	switch {
	case err != nil:
		return 0, err
	case d.Years != 0 || d.Months != 0:
		return 0, errors.New("has years or months, which differ in length; give days")
	case d.Negative:
		return 0, contract.ErrNegative
	}
	return contract.Seconds(d.Weeks*7*24*3600 + d.Days*24*3600 + d.Hours*3600 + d.Minutes*60 + d.Seconds)
}

func seconds(s string) (time.Duration, error) {
	n, err := strconv.ParseFloat(s, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, contract.ErrTooLong
	}
	if err != nil {
		return 0, contract.ErrDuration
	}
	return contract.Seconds(n)
}
