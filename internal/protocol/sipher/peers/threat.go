package peers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fedpost/internal/activity/outcome"
)

// Reason is why a server is unhealthy, as the registry stores it.
type Reason string

// The reasons of the protocol.
const (
	TimedOut        Reason = "TIMEOUT"                      // the deadline passed
	DNSBlocked      Reason = "DNS_BLOCKED"                  // host not found, resolver failure
	ConnRefused     Reason = "CONN_REFUSED"                 // connection refused
	ConnReset       Reason = "CONN_RESET"                   // reset, or connecting timed out by the system
	TLSError        Reason = "TLS_ERROR"                    // handshake or certificate failure
	InvalidResponse Reason = "INVALID_RESPONSE_FROM_TARGET" // a proxy answered 502
	Unknown         Reason = "UNKNOWN"                      // anything else
)

// reasons are those of classified network faults; all others are Unknown.
var reasons = map[outcome.Reason]Reason{
	outcome.Timeout: TimedOut, outcome.DNS: DNSBlocked, outcome.ConnRefused: ConnRefused,
	outcome.ConnReset: ConnReset, outcome.TLS: TLSError,
}

// ReasonOf returns the reason that stands for a classified network fault.
func ReasonOf(r outcome.Reason) Reason { return cmp.Or(reasons[r], Unknown) }

// Policy says what may be done about a server that is unhealthy for a reason.
type Policy struct {
	// ProxyEligible: another server may be asked to pass a delivery on.
	ProxyEligible bool `json:"proxyEligible"`
	// DirectHealthCheckable: asking the server itself shows whether it is back.
	DirectHealthCheckable bool `json:"directHealthCheckable"`
}

// Policies has a policy for each reason. Make it with DefaultPolicies or ParsePolicies.
type Policies struct{ byReason map[Reason]Policy }

// DefaultPolicies returns the protocol's own policies.
func DefaultPolicies() Policies {
	return Policies{map[Reason]Policy{
		TimedOut:        {ProxyEligible: false, DirectHealthCheckable: true},
		DNSBlocked:      {ProxyEligible: true, DirectHealthCheckable: false},
		ConnRefused:     {ProxyEligible: false, DirectHealthCheckable: true},
		ConnReset:       {ProxyEligible: false, DirectHealthCheckable: true},
		TLSError:        {ProxyEligible: false, DirectHealthCheckable: true},
		InvalidResponse: {ProxyEligible: true, DirectHealthCheckable: false},
		Unknown:         {ProxyEligible: true, DirectHealthCheckable: true},
	}}
}

// For returns the policy of a reason; an unknown one, such as an older server's, counts as Unknown.
func (p Policies) For(r Reason) Policy {
	if v, ok := p.byReason[r]; ok {
		return v
	}
	return p.byReason[Unknown]
}

// ParsePolicies returns the defaults with the overrides of a JSON object, such as
// {"TIMEOUT":{"proxyEligible":true}}; an empty text has none. The error names unknown reasons.
func ParsePolicies(overrides string) (Policies, error) {
	p := DefaultPolicies()
	if strings.TrimSpace(overrides) == "" {
		return p, nil
	}
	var given map[Reason]struct {
		ProxyEligible         *bool `json:"proxyEligible"`
		DirectHealthCheckable *bool `json:"directHealthCheckable"`
	}
	dec := json.NewDecoder(strings.NewReader(overrides))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&given); err != nil {
		return Policies{}, fmt.Errorf(`threat policies: want {"REASON":{"proxyEligible":bool,"directHealthCheckable":bool}}: %w`, err)
	}
	if dec.More() {
		return Policies{}, fmt.Errorf("threat policies: text after the JSON object")
	}
	var unknown []string
	for reason, o := range given {
		v, ok := p.byReason[reason]
		if !ok {
			unknown = append(unknown, string(reason))
			continue
		}
		if o.ProxyEligible != nil {
			v.ProxyEligible = *o.ProxyEligible
		}
		if o.DirectHealthCheckable != nil {
			v.DirectHealthCheckable = *o.DirectHealthCheckable
		}
		p.byReason[reason] = v
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return Policies{}, fmt.Errorf("threat policies: no such reason: %s; the reasons are %v",
			strings.Join(unknown, ", "), slices.Sorted(maps.Keys(p.byReason)))
	}
	return p, nil
}
