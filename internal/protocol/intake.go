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
