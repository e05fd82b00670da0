package main

import (
	"fmt"
	"time"

	"fedpost/internal/app/config"
)

// duration is a flag in all the notations of settings, such as 7d.
type duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := config.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is %w: write it like 90s, 1h30m, 7d or PT1H", text, err)
	}
	*d = duration(v)
	return nil
}

// moment is a flag for a time.
type moment time.Time

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *moment) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("%q is no time: write it like 2026-11-21T08:00:00Z", text)
	}
	*m = moment(t)
	return nil
}
