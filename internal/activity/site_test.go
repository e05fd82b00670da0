package activity_test

import (
	"testing"

	"fedpost/internal/activity"
)

func TestSiteOfAHost(t *testing.T) {
	for host, want := range map[string]string{
		"social.example":           "social.example",
		"a.b.social.example":       "social.example",
		"a.social.example:8443":    "social.example",
		"one.co.uk":                "one.co.uk",
		"a.one.co.uk":              "one.co.uk",
		"co.uk":                    "co.uk",
		"me.github.io":             "me.github.io",
		"xn--bcher-kva.example":    "xn--bcher-kva.example",
		"localhost:3000":           "localhost",
		"192.0.2.7:9001":           "192.0.2.7",
		"[2001:db8:1:2:3::4]":      "2001:db8:1:2::/64",
		"[2001:db8:1:2:5::6]:8443": "2001:db8:1:2::/64",
		"[::ffff:192.0.2.7]:80":    "192.0.2.7",
	} {
		if got := activity.SiteOf(host); got != want {
			t.Errorf("%s is of site %q, want %q", host, got, want)
		}
	}
}
