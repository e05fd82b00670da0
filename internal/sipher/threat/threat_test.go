package threat_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"fedpost/internal/outcome"
	"fedpost/internal/sipher/threat"
)

func TestD5DefaultPoliciesMatchTheVectors(t *testing.T) {
	b, err := os.ReadFile("../testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Model map[threat.Reason]threat.Policy `json:"threat_model"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Model) != 7 {
		t.Fatalf("%d reasons", len(v.Model))
	}
	for reason, want := range v.Model {
		if got := threat.Defaults().For(reason); got != want {
			t.Errorf("%s: %+v, want %+v", reason, got, want)
		}
	}
}

func TestD5EveryNetworkFaultHasItsReason(t *testing.T) {
	for r, want := range map[outcome.Reason]threat.Reason{
		outcome.Timeout: threat.Timeout, outcome.DNS: threat.DNSBlocked, outcome.ConnRefused: threat.ConnRefused,
		outcome.ConnReset: threat.ConnReset, outcome.TLS: threat.TLSError,
		outcome.InvalidAnswer: threat.Unknown, outcome.OtherTrouble: threat.Unknown, "new": threat.Unknown,
	} {
		if got := threat.Of(r); got != want {
			t.Errorf("%s: %s, want %s", r, got, want)
		}
	}
}

func TestD5UnknownStoredReasonCountsAsUnknown(t *testing.T) {
	p, err := threat.Parse(`{"UNKNOWN":{"directHealthCheckable":false}}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.For("SOMETHING_OLD"); got != (threat.Policy{ProxyEligible: true}) {
		t.Errorf("%+v", got)
	}
}

func TestD5PoliciesAreOverridablePerReason(t *testing.T) {
	p, err := threat.Parse(` {"TIMEOUT":{"proxyEligible":true},"DNS_BLOCKED":{"proxyEligible":false,"directHealthCheckable":true}} `)
	if err != nil {
		t.Fatal(err)
	}
	for reason, want := range map[threat.Reason]threat.Policy{
		threat.Timeout:     {ProxyEligible: true, DirectHealthCheckable: true},
		threat.DNSBlocked:  {DirectHealthCheckable: true},
		threat.ConnRefused: threat.Defaults().For(threat.ConnRefused),
	} {
		if got := p.For(reason); got != want {
			t.Errorf("%s: %+v", reason, got)
		}
	}
	if threat.Defaults().For(threat.Timeout).ProxyEligible {
		t.Error("an override changed the defaults")
	}
	if p, err := threat.Parse(""); err != nil || p.For(threat.Timeout) != threat.Defaults().For(threat.Timeout) {
		t.Errorf("no overrides: %v", err)
	}
}

func TestD9FaultyPoliciesAreRefused(t *testing.T) {
	for in, says := range map[string]string{
		`{"TIME_OUT":{},"DNS":{}}`:            "DNS, TIME_OUT",
		`{"TIMEOUT":{"proxy":true}}`:          "proxyEligible",
		`{"TIMEOUT":{"proxyEligible":"yes"}}`: "proxyEligible",
		`[]`:                                  "want",
		`{}{}`:                                "after",
	} {
		if _, err := threat.Parse(in); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", in, err)
		}
	}
}
