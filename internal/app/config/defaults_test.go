package config

import (
	"reflect"
	"testing"
	"time"
)

// With a default both in a tag and in the domain the two would drift apart, and
// nobody would know which one holds.
func TestADefaultStandsOnce(t *testing.T) {
	for _, p := range programs {
		for _, concern := range concerns(p.cfg) {
			typ := concern.Type().Elem()
			domain := preset(reflect.New(typ)).Elem()
			for i := range typ.NumField() {
				f := typ.Field(i)
				if _, inTag := f.Tag.Lookup("envDefault"); inTag && !domain.Field(i).IsZero() {
					t.Errorf("%s.%s has the default %v of the domain and one in its tag", typ.Name(), f.Name, domain.Field(i))
				}
			}
		}
	}
}

func TestASettingThatIsNotSetHasTheDomainsDefault(t *testing.T) {
	var c struct {
		Circuit Circuit
		Limits  Limits
	}
	if err := From(&c, map[string]string{"CIRCUIT_STREAK": "9", "MAX_DELAY": "0s"}); err != nil {
		t.Fatal(err)
	}
	if c.Circuit.Streak != 9 || c.Circuit.Sample != 10 || c.Limits.Delay != 0 || c.Limits.Retention != 40*24*time.Hour || c.Circuit.Revive != 30*24*time.Hour {
		t.Errorf("settings are %+v; want streak 9, sample 10, no delay, retention of 40 days, revival within 30", c)
	}
}

func TestADefaultIsWrittenAsOperatorsDo(t *testing.T) {
	for want, v := range map[string]any{
		"1d": 24 * time.Hour, "1m30s": 90 * time.Second, "12h": 12 * time.Hour, "5m": 5 * time.Minute, "15s": 15 * time.Second, "1h30m": 90 * time.Minute,
		"0.7": 0.7, "256": 256, "fedpost": "fedpost",
	} {
		if got := written(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}
