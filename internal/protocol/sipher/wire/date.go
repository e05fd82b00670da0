package wire

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"
)

// dateLayouts are the forms of ISO 8601 that JavaScript writes and reads. Go accepts fractions of a
// second in all of them.
var dateLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", time.DateOnly,
}

// maxDate is the largest date of JavaScript, in ms from the epoch.
// https://tc39.es/ecma262/#sec-time-values-and-time-range
const maxDate = 8.64e15

var errDate = errors.New("neither an ISO 8601 date nor milliseconds since the epoch")

// date reads a JSON value that is an ISO date or a number of milliseconds. null is the epoch, as for
// JavaScript's Date, by which Sipher servers read it.
func date(raw json.RawMessage) (time.Time, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return time.Time{}, errDate
	}
	switch v := v.(type) {
	case nil:
		return time.UnixMilli(0).UTC(), nil
	case float64:
		if math.Abs(v) > maxDate {
			return time.Time{}, errDate
		}
		return time.UnixMilli(int64(v)).UTC(), nil
	case string:
		for _, layout := range dateLayouts {
			if t, err := time.Parse(layout, strings.TrimSpace(v)); err == nil {
				return t.UTC(), nil
			}
		}
	}
	return time.Time{}, errDate
}
