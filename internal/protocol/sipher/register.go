package sipher

import (
	"context"
	"net/http"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/protocol/sipher/follow"
)

const (
	// KeepDelivered and KeepFailed are how long records are kept for diagnosis.
	KeepDelivered = 24 * time.Hour
	KeepFailed    = 7 * 24 * time.Hour
)

// Bounds are what an installation allows the protocol.
type Bounds struct {
	// InFlight is how many jobs a process delivers at once; 0: only the bounds for all protocols.
	InFlight int
	// PerHost is how many attempts one host may have under way, whatever the protocol.
	PerHost int
}

// Register returns the protocol's registration. The protocol has no circuits, so each job for a server
// that hangs is tried: jobs for one host get half of the places at most.
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

// discover reads the handler at each request, so that Register works without a Protocol.
func (p *Protocol) discover(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

type upkeep struct{ protocol *Protocol }

func (u upkeep) Check(ctx context.Context, _ time.Time) error {
	_, err := u.protocol.Check(ctx)
	return err
}

// Record implements protocol.Recorder: the record of a follow must exist when its acknowledgement
// arrives.
func (p *Protocol) Record(ctx context.Context, a activity.Activity, _ activity.Target) error {
	return follow.Record(ctx, p.Store, a, p.Now())
}

// Prepare implements protocol.Sender. A job has one target, so nothing is shared.
func (p *Protocol) Prepare(_ context.Context, a activity.Activity) protocol.Attempt {
	return func(ctx context.Context, t activity.Target, n int) outcome.Outcome { return p.Attempt(ctx, a, t, n) }
}
