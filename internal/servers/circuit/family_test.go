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

func TestABlockCoversItsInboxesAndWhatIsBelowItsDomain(t *testing.T) {
	family, host := circuit.FamilyKey("bad.example"), circuit.HostKey("bad.example")
	for other, want := range map[string][2]bool{ // by family, by host
		circuit.HostKey("a.bad.example"):                      {true, false},
		circuit.HostKey("b.a.bad.example:8443"):               {true, false},
		circuit.HostKey("bad.example:8443"):                   {true, false},
		circuit.InboxKey("https://a.bad.example/inbox#key-1"): {true, false},
		circuit.InboxKey("https://bad.example/inbox"):         {false, true},
		circuit.HostKey("bad.example"):                        {false, false},
		circuit.HostKey("notbad.example"):                     {false, false},
		circuit.FamilyKey("a.bad.example"):                    {false, false},
	} {
		if got := [2]bool{circuit.Covers(family, other), circuit.Covers(host, other)}; got != want {
			t.Errorf("%s: %v, want %v", other, got, want)
		}
	}
}
