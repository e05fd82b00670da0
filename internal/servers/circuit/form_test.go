package circuit

import (
	"testing"
	"time"
)

// TestAFormIsBelievedAfterTwoDeliveries that are far enough apart not to be one
// passing trouble, and near enough to each other to have one cause.
func TestAFormIsBelievedAfterTwoDeliveries(t *testing.T) {
	type took struct {
		after time.Duration // the one before
		form  string
	}
	for name, c := range map[string]struct {
		took []took
		want string
	}{
		"once":                         {[]took{{0, "b"}}, ""},
		"many times within a minute":   {[]took{{0, "b"}, {20 * time.Second, "b"}, {20 * time.Second, "b"}, {19 * time.Second, "b"}}, ""},
		"a minute apart":               {[]took{{0, "b"}, {time.Minute, "b"}}, "b"},
		"within a minute, and later":   {[]took{{0, "b"}, {30 * time.Second, "b"}, {30 * time.Second, "b"}}, "b"},
		"two days apart":               {[]took{{0, "b"}, {48 * time.Hour, "b"}}, ""},
		"two days apart, and an hour":  {[]took{{0, "b"}, {48 * time.Hour, "b"}, {time.Hour, "b"}}, "b"},
		"another form between":         {[]took{{0, "b"}, {time.Hour, "a"}, {time.Hour, "b"}}, ""},
		"back to the usual one, once":  {[]took{{0, "b"}, {time.Hour, "b"}, {time.Hour, "a"}}, "b"},
		"back to the usual one, twice": {[]took{{0, "b"}, {time.Hour, "b"}, {time.Hour, "a"}, {time.Hour, "a"}}, "a"},
	} {
		s, now := fresh(), t0
		for _, k := range c.took {
			now = now.Add(k.after)
			s = s.TookForm(rules, k.form, now.Add(7*24*time.Hour), now)
		}
		if got := s.FormAt(now); got != c.want {
			t.Errorf("%s: the server is believed to take %q, want %q", name, got, c.want)
		}
		if got := s.FormAt(now.Add(7 * 24 * time.Hour)); got != "" {
			t.Errorf("%s: after a week the server is still believed to take %q", name, got)
		}
	}
}
