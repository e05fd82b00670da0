package sipher

import (
	"context"
	"net/http"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/retry"
)

// The protocol's numbers that the engine keeps.
const (
	// KeepDelivered and KeepFailed are how long records are kept for diagnosis.
	KeepDelivered = 24 * time.Hour
	KeepFailed    = 7 * 24 * time.Hour
)

// Bounds are what an installation allows the protocol.
type Bounds struct {
	// InFlight is how many jobs a process delivers at once; 0: only the bounds for all
	// protocols apply.
	InFlight int
	// PerHost is how many attempts one host may have under way, whatever its
	// protocol.
	PerHost int
}

// Register returns the protocol's registration.
//
// The registration has bounds of its own, because the protocol has no circuits: each job
// for a server that hangs is tried, so these jobs get half of the places at most.
func Register(p *Protocol, b Bounds) protocol.Protocol {
	return protocol.Protocol{
		Name: activity.Sipher,
		Intake: protocol.Intake{
			Body: protocol.Text, Missing: "give the exact JSON text to encrypt, as a string",
			Fields: []protocol.Field{protocol.Job, protocol.ServerURL}, Signs: "with the server's own identity",
			Single: true, Recorder: p,
		},
		Delivery: protocol.Delivery{
			Sender: p, Policy: retry.Sipher(), Attempt: Budget,
			InFlight: b.InFlight, PerHost: min(b.PerHost, max(1, b.InFlight/2)),
			KeepDelivered: KeepDelivered, KeepFailed: KeepFailed,
		},
		Upkeep: upkeep{p},
		Public: map[string]http.Handler{"/discover": http.HandlerFunc(p.discover)},
	}
}

func (p *Protocol) discover(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// upkeep makes the health checks of the protocol's own registry.
type upkeep struct{ protocol *Protocol }

func (u upkeep) Check(ctx context.Context, _ time.Time) error {
	_, err := u.protocol.Check(ctx)
	return err
}

// Record implements protocol.Recorder: it writes the local record of a follow,
// which must be there when the acknowledgement arrives.
func (p *Protocol) Record(ctx context.Context, a activity.Activity, _ activity.Target) error {
	return p.RecordFollow(ctx, a)
}

// Prepare implements protocol.Sender. Jobs have one target, so there is nothing to
// share.
func (p *Protocol) Prepare(_ context.Context, a activity.Activity) protocol.Attempt {
	return func(ctx context.Context, t activity.Target, n int) outcome.Outcome { return p.Attempt(ctx, a, t, n) }
}
