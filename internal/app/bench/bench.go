// Package bench measures a running fedpost under load: a load generator, servers that
// receive, and a report. It is the command `fedpost bench`.
//
// Each run checks every delivery. A run that lost, doubled, reordered or changed anything has faults
// and no figures.
//
// To compare machines, a report has the server's processor time for each delivery in RSA-2048
// signatures of the same machine.
package bench

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Mix is the kind of work of a run.
type Mix string

// The mixes.
const (
	// FanOut is few activities to many recipients each.
	FanOut Mix = "fanout"
	// Single is many activities to one recipient each.
	Single Mix = "single"
	// Ordered is activities of one ordering key for each caller, delivered in order.
	Ordered Mix = "ordered"
	// Keyed is activities with a deduplication key; every tenth call is repeated, and has to
	// be answered as a duplicate.
	Keyed Mix = "keyed"
)

// Mixes lists the mixes.
var Mixes = []Mix{FanOut, Single, Ordered, Keyed}

// Plan is the work of one run.
type Plan struct {
	Mix        Mix     `json:"mix"`
	Activities int     `json:"activities"`
	Recipients int     `json:"recipients"` // of each activity
	Callers    int     `json:"callers"`    // calls to the API at once
	Rate       float64 `json:"rate"`       // calls a second of all callers together; 0: one after the other
	Hosts      int     `json:"hosts"`      // servers that receive
	Key        string  `json:"key"`        // rsa or ed25519
	TLS        bool    `json:"tls"`        // the servers speak TLS 1.3
	HTTP2      bool    `json:"http2"`      // and offer HTTP/2
	Known      bool    `json:"known"`      // each server got an activity before, which is not measured
	HangUp     bool    `json:"hangUp"`     // the servers close the connection after each answer
	Answer     Times   `json:"answer"`     // how long the servers take to answer
	Sick       float64 `json:"sick"`       // share of the servers that never answer
	Body       int     `json:"body"`       // bytes of an activity
	Beside     int     `json:"beside"`     // recipients of one more activity, sent first, whose times do not count
}

// Bounds of a plan, against mistyped numbers.
const (
	MaxDeliveries = 5_000_000
	MaxRecipients = 50_000
	MaxHosts      = 2_000
	MaxCallers    = 250
	minBody       = 300
	maxBody       = 200 << 10
)

var ErrPlan = errors.New("this cannot be measured")

// Check returns all faults of p, wrapped in ErrPlan.
func (p Plan) Check() error {
	var faults []error
	within := func(name string, v, least, most int) {
		if v < least || v > most {
			faults = append(faults, fmt.Errorf("%s is %d, it can be %d to %d", name, v, least, most))
		}
	}
	if !slices.Contains(Mixes, p.Mix) {
		faults = append(faults, fmt.Errorf("mix is %q, it can be one of %v", p.Mix, Mixes))
	}
	if p.Key != "rsa" && p.Key != "ed25519" {
		faults = append(faults, fmt.Errorf("key is %q, it can be rsa or ed25519", p.Key))
	}
	within("activities", p.Activities, 1, MaxDeliveries)
	within("recipients", p.Recipients, 1, MaxRecipients)
	within("callers", p.Callers, 1, MaxCallers)
	within("hosts", p.Hosts, 1, MaxHosts)
	within("body", p.Body, minBody, maxBody)
	within("beside", p.Beside, 0, MaxRecipients)
	if p.Activities > 0 && p.Recipients > MaxDeliveries/p.Activities {
		faults = append(faults, fmt.Errorf("%d activities to %d recipients are more than %d deliveries", p.Activities, p.Recipients, MaxDeliveries))
	}
	if !(p.Sick >= 0 && p.Sick < 1) {
		faults = append(faults, fmt.Errorf("sick is %v; it has to be at least 0 and less than 1", p.Sick))
	}
	if !(p.Rate >= 0 && p.Rate <= 100_000) {
		faults = append(faults, fmt.Errorf("rate is %v calls a second, it can be 0 to 100000", p.Rate))
	}
	if p.HTTP2 && !p.TLS {
		faults = append(faults, errors.New("HTTP/2 is offered over TLS only"))
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %w", ErrPlan, errors.Join(faults...))
	}
	return nil
}

// WithDefaults is p with defaults for what is 0.
func (p Plan) WithDefaults() Plan {
	activities, recipients := 2000, 1
	switch p.Mix {
	case FanOut:
		activities, recipients = 1, 5000
	case Ordered:
		activities, recipients = 500, 5
	}
	p.Activities, p.Recipients = cmp.Or(p.Activities, activities), cmp.Or(p.Recipients, recipients)
	return p
}

// host is the server that gets an activity for its recipient of a number.
func (p Plan) host(activity, recipient int) int { return (activity + recipient) % p.Hosts }

// sick reports whether a server never answers. The sick ones are spread evenly.
func (p Plan) sick(host int) bool {
	return int(float64(host+1)*p.Sick) > int(float64(host)*p.Sick)
}

// recipients is how many recipients an activity has. The one beside has the number after the
// last.
func (p Plan) recipients(activity int) int {
	switch {
	case activity >= 0 && activity < p.Activities:
		return p.Recipients
	case activity == p.Activities:
		return p.Beside
	}
	return 0
}

// healthy is how many deliveries go to servers that answer.
func (p Plan) healthy() int {
	n := 0
	for a := range p.Activities + 1 {
		for r := range p.recipients(a) {
			if !p.sick(p.host(a, r)) {
				n++
			}
		}
	}
	return n
}

// Result is what a run measured. Times are in seconds.
type Result struct {
	Plan
	Deliveries int     `json:"deliveries"` // to servers that answer
	Seconds    float64 `json:"seconds"`    // from the first call to the last of these deliveries
	PerSecond  float64 `json:"perSecond"`
	// Accepting is the duration of a call to the API; Arriving the time from the beginning of
	// the call until a server had the head of the request; Waiting that from the end of the
	// call.
	Accepting Spread `json:"accepting"`
	Arriving  Spread `json:"arriving"`
	Waiting   Spread `json:"waiting"`
	// Server is what fedpost's process used; nil if that is not known.
	Server *Usage `json:"server,omitempty"`
	// Connections to the servers, of which Handshakes began with a full TLS handshake and Resumed
	// with a resumed one. OverHTTP2 is the number of deliveries over HTTP/2.
	Connections int `json:"connections"`
	Handshakes  int `json:"handshakes"`
	Resumed     int `json:"resumed"`
	OverHTTP2   int `json:"overHTTP2"`
	// Faults says what was lost, doubled, out of order or changed. A run with faults measured
	// nothing.
	Faults []string `json:"faults,omitempty"`
}

// inCalls is Waiting as a multiple of Accepting.
func (r Result) inCalls() float64 { return r.Waiting.P50 / max(r.Accepting.P50, 1e-6) }

// Usage is what the server's process used during a run.
type Usage struct {
	Processor    float64 `json:"processorSeconds"` // user and system
	Each         float64 `json:"millisecondsEach"` // processor time for a delivery
	InSignatures float64 `json:"inSignatures"`     // Each in RSA-2048 signatures of this machine
	Memory       float64 `json:"memoryMB"`         // most resident memory seen
}
