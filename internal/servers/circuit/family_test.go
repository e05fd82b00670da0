package circuit_test

import (
	"slices"
	"testing"

	"fedpost/internal/servers/circuit"
)

func TestTheDomainsAboveAHost(t *testing.T) {
	for host, want := range map[string][]string{
		"social.example":     nil,
		"example":            nil,
		"a.bad.example":      {"host:*.bad.example"},
		"a.b.bad.example":    {"host:*.b.bad.example", "host:*.bad.example"},
		"bad.example:8443":   {"host:*.bad.example"},
		"a.bad.example:8443": {"host:*.a.bad.example", "host:*.bad.example"},
		"127.0.0.1":          nil,
		"127.0.0.1:8080":     nil,
		"[2001:db8::1]":      nil,
		"[2001:db8::1]:8080": nil,
		"localhost:8080":     nil,
	} {
		if got := circuit.Families(host); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", host, got, want)
		}
	}
}
