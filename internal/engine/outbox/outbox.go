// Package outbox has the types for what an application asks for in its own transaction: rows that
// it inserts into a table, each with a request of POST /v1/activities. Engine postgres keeps the
// rows, and package app accepts their requests. The API uses these types, so that on Lambda it
// links no driver of PostgreSQL.
package outbox

import (
	"context"
	"time"
)

// State is what became of a row.
type State string

const (
	Waiting  State = "waiting"  // nobody has accepted it yet
	Accepted State = "accepted" // it is an activity
	Refused  State = "refused"  // the API refuses the request
)

var States = []State{Waiting, Accepted, Refused}

type Row struct {
	ID      int64
	Created time.Time // by the clock of the server, to the microsecond
	// Key is the deduplication key of the row; nil: none.
	Key *string
	// Request is the body of POST /v1/activities, byte for byte. Lists leave it out.
	Request string
	// Tries is how often accepting the row has failed by a fault of fedpost's own.
	Tries int

	State    State
	Activity string    // of an accepted row
	Problem  string    // of a refused row: the document that the API answers (RFC 9457)
	Ended    time.Time // when it was accepted or refused
}

// Verdict is what becomes of a row: accepted with an activity, refused with a problem, or, if
// neither is set, tried again. Tried counts the attempt.
type Verdict struct {
	Activity string
	Problem  string
	Tried    bool
}

// Accept decides about rows, which are in the order of their insertion. It returns a verdict
// for each. A row may come again after any verdict, if the process dies or the verdict cannot
// be written, and must then lead to the same activity.
type Accept func(ctx context.Context, rows []Row) []Verdict

// Depth is how many rows wait and are refused, and when the oldest one that waits was
// inserted; zero if none waits.
type Depth struct {
	Waiting, Refused int
	Oldest           time.Time
}
