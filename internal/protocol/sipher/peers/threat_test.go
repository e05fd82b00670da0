package peers_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/sipher/peers"
)

func TestDefaultPoliciesMatchTheVectors(t *testing.T) {
	b, err := os.ReadFile("../testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Model map[peers.Reason]peers.Policy `json:"threat_model"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Model) != 7 {
		t.Fatalf("%d reasons", len(v.Model))
	}
	for reason, want := range v.Model {
		if got := peers.DefaultPolicies().For(reason); got != want {
			t.Errorf("%s: %+v, want %+v", reason, got, want)
		}
	}
}

func TestEveryNetworkFaultHasItsReason(t *testing.T) {
	for r, want := range map[outcome.Reason]peers.Reason{
		outcome.Timeout: peers.TimedOut, outcome.DNS: peers.DNSBlocked, outcome.ConnRefused: peers.ConnRefused,
		outcome.ConnReset: peers.ConnReset, outcome.TLS: peers.TLSError,
		outcome.InvalidAnswer: peers.Unknown, outcome.OtherTrouble: peers.Unknown, "new": peers.Unknown,
	} {
		if got := peers.ReasonOf(r); got != want {
			t.Errorf("%s: %s, want %s", r, got, want)
		}
	}
}

func TestUnknownStoredReasonCountsAsUnknown(t *testing.T) {
	p, err := peers.ParsePolicies(`{"UNKNOWN":{"directHealthCheckable":false}}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.For("SOMETHING_OLD"); got != (peers.Policy{ProxyEligible: true}) {
		t.Errorf("the policy is %+v, want only proxies", got)
	}
}

func TestPoliciesAreOverridablePerReason(t *testing.T) {
	p, err := peers.ParsePolicies(` {"TIMEOUT":{"proxyEligible":true},"DNS_BLOCKED":{"proxyEligible":false,"directHealthCheckable":true}} `)
	if err != nil {
		t.Fatal(err)
	}
	for reason, want := range map[peers.Reason]peers.Policy{
		peers.TimedOut:    {ProxyEligible: true, DirectHealthCheckable: true},
		peers.DNSBlocked:  {DirectHealthCheckable: true},
		peers.ConnRefused: peers.DefaultPolicies().For(peers.ConnRefused),
	} {
		if got := p.For(reason); got != want {
			t.Errorf("%s: %+v", reason, got)
		}
	}
	if peers.DefaultPolicies().For(peers.TimedOut).ProxyEligible {
		t.Error("an override changed the defaults")
	}
	if p, err := peers.ParsePolicies(""); err != nil || p.For(peers.TimedOut) != peers.DefaultPolicies().For(peers.TimedOut) {
		t.Errorf("no overrides: %v", err)
	}
}

func TestFaultyPoliciesAreRefused(t *testing.T) {
	for in, says := range map[string]string{
		`{"TIME_OUT":{},"DNS":{}}`:            "DNS, TIME_OUT",
		`{"TIMEOUT":{"proxy":true}}`:          "proxyEligible",
		`{"TIMEOUT":{"proxyEligible":"yes"}}`: "proxyEligible",
		`[]`:                                  "want",
		`{}{}`:                                "after",
	} {
		if _, err := peers.ParsePolicies(in); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", in, err)
		}
	}
}
