package protocol

import (
	"context"

	"fedpost/internal/activity"
)

// Intake says which requests a protocol accepts.
type Intake struct {
	// Body is the field of a request that holds what is delivered.
	Body Body
	// Missing says what to give in that field, for requests that lack it.
	Missing string
	// Inspector looks at what is to be delivered before it is accepted; nil: the
	// protocol takes any text.
	Inspector Inspector
	// Fields are the fields of a request that not every protocol has. Those of
	// this protocol are required, others are refused.
	Fields []Field
	// Signs says how the protocol signs if not with a key that the request names, such
	// as "with the server's own identity".
	Signs string
	// Single: a delivery has exactly one target, which is no shared inbox.
	Single bool
	// Recorder is told of each activity before it is sent; nil: nobody is.
	Recorder Recorder
}

// Body is a field of a request.
type Body string

const (
	// JSON is delivered as the caller wrote it, byte for byte.
	JSON Body = "activity"
	// Text is the content of a string.
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

// Inspector looks at what is to be delivered.
type Inspector interface {
	// Inspect returns the type of an activity, "" if it has none, and what is
	// wrong with it.
	Inspect(body string) (kind string, faults []Fault)
}

// Fault is one thing that is wrong with what is to be delivered.
type Fault struct {
	Pointer string // JSON pointer (RFC 6901) below the body's field
	Detail  string
}

// Recorder writes records that must exist before the answer to a delivery arrives.
// Recording twice is harmless. After an error the request is refused as a failure of
// ours.
type Recorder interface {
	Record(ctx context.Context, a activity.Activity, t activity.Target) error
}
