package api

import (
	"encoding/json"
	"testing"
	"time"
)

// TestDurationsAreReadByTheirGrammar: each unit once and in order, and nothing
// overflows.
func TestDurationsAreReadByTheirGrammar(t *testing.T) {
	for value, want := range map[string]time.Duration{
		`"PT1H"`: time.Hour, `"PT1H30M"`: 90 * time.Minute, `"PT1H2M3S"`: time.Hour + 2*time.Minute + 3*time.Second,
		`"P1DT1H"`: 25 * time.Hour, `"P1W1D"`: 8 * 24 * time.Hour, `"P0.5W"`: 84 * time.Hour, `"PT1.5H"`: 90 * time.Minute, `"PT0.25S"`: 250 * time.Millisecond,
		`"10m"`: 10 * time.Minute, `"1h30m"`: 90 * time.Minute, `"1.5h"`: 90 * time.Minute, `"2d"`: 48 * time.Hour, `"250ms"`: 250 * time.Millisecond,
		`"PT0S"`: 0, `"01"`: time.Second, `1e3`: 1000 * time.Second, `0.0005`: time.Millisecond, `9223372036`: 9223372036 * time.Second,
	} {
		if d, err := parseDuration(json.RawMessage(value)); err != nil || d != want {
			t.Errorf("%s is %s, %v; want %s", value, d, err, want)
		}
	}
	for _, value := range []string{
		`"-5m"`, `"+5m"`, `"5ns"`, `".5h"`, `"1.h"`, `"2 d"`, `"1.5d"`, `"-2d"`, `"9999999999d"`, `"m"`, `"d"`,
		`"PT1H1H"`, `"P1D1D"`, `"PT1H2H3H"`, `"PT1M1H"`, `"PT1H30"`, `"P1"`, `"1H"`, `"PT"`, `"P"`, `"P1H"`, `"PT1D"`, `"P1M"`, `"P1Y"`, `"PT1.5H30M"`,
		`"P1S"`, `"PT1S2"`, `"PT5"`, `"PTS"`, `"PT.5S"`, `"PT1.S"`, `"PT1..5S"`, `"P1DT"`, `"-P1D"`, `"PT1H P1D"`, `"PT1H\n"`, `"PT1H "`, `" PT1H"`, `"1_000"`, `"0x10"`,
		`"PTNaNS"`, `"PTInfS"`, `"PT1e3S"`, `"PT99999999999999999999H"`, `9223372036.8547`, `9223372036.85478`, `9223372036.854775`, `1e308`, `1e999`, `-1`,
	} {
		if d, err := parseDuration(json.RawMessage(value)); err == nil {
			t.Errorf("%s is %s", value, d)
		}
	}
}
