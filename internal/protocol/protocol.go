// Package protocol defines what the rest of fedpost knows about a protocol.
//
// A protocol is one package below this one and one value of type Protocol, which holds all that the API,
// the engine and the scheduled function need: no other code branches on a protocol's name. To add a
// protocol, add a package and one line in package app.
package protocol

import (
	"context"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/retry"
)

// Protocol is the registration of a protocol.
type Protocol struct {
	Name     activity.Protocol
	Intake   Intake
	Delivery Delivery
	// Upkeep is the protocol's part of the scheduled work; nil: it has none.
	Upkeep Upkeep
	// Public holds the handlers of routes without authentication, by pattern of http.ServeMux.
	Public map[string]http.Handler
}

// Upkeep is a protocol's scheduled work.
type Upkeep interface {
	Check(ctx context.Context, now time.Time) error
}

// Set lists the protocols of an installation, the default one first.
type Set []Protocol

// Default is the protocol of requests that name none.
func (s Set) Default() activity.Protocol {
	if len(s) == 0 {
		return ""
	}
	return s[0].Name
}

// Of returns a protocol by its name.
func (s Set) Of(name activity.Protocol) (Protocol, bool) {
	for _, p := range s {
		if p.Name == name {
			return p, true
		}
	}
	return Protocol{}, false
}

// GiveUp is how long a delivery waits for its server; 0 if there is no such protocol.
func (s Set) GiveUp(name activity.Protocol) time.Duration {
	p, _ := s.Of(name)
	return p.Delivery.Policy.GiveUp
}

// Offered lists the protocols that callers of the API may ask for.
func (s Set) Offered() []activity.Protocol {
	return s.names(func(p Protocol) bool { return p.Intake.Body != None })
}

// With lists the protocols whose requests have a field.
func (s Set) With(f Field) []activity.Protocol {
	return s.names(func(p Protocol) bool { return slices.Contains(p.Intake.Fields, f) })
}

func (s Set) names(of func(Protocol) bool) (names []activity.Protocol) {
	for _, p := range s {
		if of(p) {
			names = append(names, p.Name)
		}
	}
	return names
}

type Sender interface {
	// Prepare does the work that all recipients of an activity share, such as loading a key. If it
	// fails, that is the outcome of every attempt.
	Prepare(ctx context.Context, a activity.Activity) Attempt
}

// Attempt makes the n-th attempt, from 1, to deliver to t. It is called concurrently.
type Attempt func(ctx context.Context, t activity.Target, n int) outcome.Outcome

type signed struct{}

// WhenSigned returns a context for an attempt with Delivery.Wait. When its request is signed, the attempt
// calls Signed with that context, which calls f.
func WhenSigned(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, signed{}, f)
}

// Signed says that the request of an attempt is signed. Further calls are harmless.
func Signed(ctx context.Context) {
	if f, ok := ctx.Value(signed{}).(func()); ok {
		f()
	}
}

// Delivery says how activities of a protocol are delivered. A zero bound is the engine's own.
type Delivery struct {
	Sender Sender
	Policy retry.Policy
	// Attempt is the longest that one attempt takes. It is set if an attempt is several requests.
	Attempt time.Duration
	// Wait is how long an attempt may wait for a processor before the time of Attempt begins; 0: it
	// needs none. Attempts that may wait call Signed.
	Wait time.Duration
	// InFlight is how many attempts of this protocol a process makes at once, PerHost how many of
	// these to one host. Deliveries beyond that go back to their queue.
	InFlight, PerHost int
	// Quiet: these deliveries make no events.
	Quiet bool
	// KeepDelivered and KeepFailed are how long the record of an activity with one target is kept
	// after success or failure; 0: as long as other records.
	KeepDelivered, KeepFailed time.Duration
}

// Intake says which requests a protocol accepts.
type Intake struct {
	// Body names the field of a request that holds the content to deliver.
	Body Body
	// Missing is the error for requests without the field Body: what to give.
	Missing string
	// Inspector checks the content before the request is accepted; nil: any text is accepted.
	Inspector Inspector
	// Fields are those that this protocol requires and not every protocol has. Requests with such
	// a field of another protocol are refused.
	Fields []Field
	// Headers: callers may add headers to the protocol's requests.
	Headers bool
	// Signs completes "signs …" in errors, such as "with the server's own identity". It is set if
	// requests name no key.
	Signs string
	// Single: a request has exactly one target, which is not a shared inbox.
	Single bool
	// Recorder is called for each activity before it is sent; nil: there are no records to write.
	Recorder Recorder
}

// Body names the field of a request that holds the content to deliver.
type Body string

const (
	// JSON is delivered as the caller wrote it, byte for byte.
	JSON Body = "activity"
	// Text is a JSON string, whose decoded text is delivered.
	Text Body = "payload"
	// None: callers of the API cannot ask for a delivery by this protocol.
	None Body = ""
)

// Field is a field of a request that not every protocol has.
type Field string

// The fields.
const (
	KeyID     Field = "keyId"     // a signing key
	Job       Field = "job"       // what the payload is for
	ServerURL Field = "serverUrl" // the server that the target belongs to
)

// Inspector checks the content of a request before the request is accepted.
type Inspector interface {
	// Inspect returns what the content says of itself, and its faults.
	Inspect(body string) (Content, []Fault)
}

// Content is what an activity says of itself. A field is empty if the activity does not have it.
type Content struct {
	Type string // such as "Create"
	ID   string
	// Actor and Object are the ids of who acts, and on what.
	Actor, Object string
}

// Fault is one thing that is wrong with the content of a request.
type Fault struct {
	Pointer string // JSON pointer (RFC 6901) below the body's field
	Detail  string
}

// Recorder writes records that must exist before a delivery is answered. Record may be called twice for
// one activity. An error refuses the request as a failure of fedpost.
type Recorder interface {
	Record(ctx context.Context, a activity.Activity, t activity.Target) error
}

// Name cleans a type or an id for logs and terminals, as a stranger may have written it.
func Name(s string) string { return outcome.Clean(s, utf8.UTFMax*len(s)) }
