package protocol

import (
	"context"
	"unicode/utf8"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
)

// Intake says which requests a protocol accepts.
type Intake struct {
	// Body names the field of a request that holds the content to deliver.
	Body Body
	// Missing tells the caller what to give in the field Body. It is the error text for
	// requests without that field.
	Missing string
	// Inspector checks the content before the request is accepted; nil: the protocol
	// accepts any text.
	Inspector Inspector
	// Fields are the fields that this protocol requires and that not every protocol has.
	// A request with such a field of another protocol is refused.
	Fields []Field
	// Headers: callers may add headers to its requests.
	Headers bool
	// Signs completes "signs …" in errors, such as "with the server's own identity". It
	// is set if the protocol does not sign with a key that the request names.
	Signs string
	// Single: a request has exactly one target, which is not a shared inbox.
	Single bool
	// Recorder is called for each activity before it is sent; nil: the protocol keeps no
	// records of its own.
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

// Content is what an activity says of itself. Each field is empty if the activity does
// not say it.
type Content struct {
	Type string // such as "Create"
	// ID is the activity's own id, by which its author knows it.
	ID string
	// Actor is the id of who does it, Object of what it is done to, if that has an id.
	Actor, Object string
}

// Fault is one thing that is wrong with the content of a request.
type Fault struct {
	Pointer string // JSON pointer (RFC 6901) below the body's field
	Detail  string
}

// Recorder writes records that must exist before the answer to a delivery arrives.
// Record may be called twice for one activity. If Record returns an error, the request is
// refused as a failure of fedpost, not of the caller.
type Recorder interface {
	Record(ctx context.Context, a activity.Activity, t activity.Target) error
}

// Name makes a type or an id, which a stranger may have written, fit for logs and terminals:
// outcome.Clean of the whole text. The body keeps the text as it is.
func Name(s string) string { return outcome.Clean(s, utf8.UTFMax*len(s)) }
