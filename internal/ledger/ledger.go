// Package ledger keeps the account of every activity: who is to get it and
// what has become of each of them.
//
// Writing one record per recipient would cost more than everything else that
// fedpost does, so recipients are accounted for in chunks of up to ChunkSize:
// the list of a chunk is written once, the outcomes of a chunk once, and only
// a recipient that fails gets a record of its own. A chunk is claimed before
// anything of it is sent, because queues deliver twice and crashed calls are
// taken over: the claim, not the queue, is what keeps a recipient from getting
// the same activity from two workers.
package ledger

import (
	"context"
	"errors"
	"time"

	"fedpost/internal/activity"
)

// ChunkSize is how many targets one delivery message and one chunk's record
// hold: large enough that a recipient costs a few hundredths of a request,
// small enough that one message is well within a function's time limit.
const ChunkSize = 50

// Record is what is known of an activity as a whole.
type Record struct {
	ID        activity.ID       `json:"-"`
	Protocol  activity.Protocol `json:"protocol"`
	Type      string            `json:"type,omitempty"`
	CreatedAt time.Time         `json:"createdAt"`
	DueAt     time.Time         `json:"dueAt,omitzero"` // not before, if delayed
	ExpiresAt time.Time         `json:"expiresAt,omitzero"`

	// Recipients counts the caller's recipients, Targets the inboxes after
	// collapse, in chunks of Chunk (1 for an ordered activity).
	Recipients int `json:"recipients"`
	Targets    int `json:"targets"`
	Chunk      int `json:"chunk"`

	// Fingerprint tells whether a repeated deduplication key comes with the
	// same request.
	Fingerprint string `json:"fingerprint,omitempty"`

	Cancelled bool `json:"cancelled,omitempty"`

	// Forget is when the table may drop all records of the activity.
	Forget time.Time `json:"-"`

	// Inline lists the targets if they all fit in one chunk; otherwise each
	// chunk has its own list.
	Inline []activity.Target `json:"-"`
}

// Chunks is how many chunks the targets of r make.
func (r Record) Chunks() int {
	if r.Chunk < 1 {
		return 0
	}
	return (r.Targets + r.Chunk - 1) / r.Chunk
}

// Recipient is the record of one target: what the wire contract calls a
// recipient.
type Recipient struct {
	Chunk    int             `json:"-"`
	Position int             `json:"-"`
	Target   activity.Target `json:"target"`
	State    activity.State  `json:"state"`

	Attempts      int       `json:"attempts,omitempty"`
	LastStatus    int       `json:"status,omitempty"`
	LastError     string    `json:"error,omitempty"`
	Response      string    `json:"response,omitempty"`
	Note          string    `json:"note,omitempty"`
	NextAttemptAt time.Time `json:"next,omitzero"`
	UpdatedAt     time.Time `json:"updated,omitzero"`

	// Generation fences the target's messages; see message.Delivery.
	Generation int `json:"gen,omitempty"`

	// By is the activity that made this one redundant or superseded it.
	By activity.ID `json:"by,omitempty"`
}

// Unit is what a worker claims: a whole chunk, or one position of it.
type Unit struct {
	Activity activity.ID
	Chunk    int
	Position int // message.Whole for the chunk
}

// Known is what the ledger knows about a unit when a worker takes it up.
type Known struct {
	Record Record
	// Found tells whether Record was there at all: it is not after its
	// retention, or if the process died between send and record.
	Found bool
	// Recipients holds, by position, what is recorded: final states from the
	// chunk's record and the records of those that failed.
	Recipients map[int]Recipient
	// Claimed is set while another worker holds the unit, until when.
	Claimed time.Time

	// fences of what was read, so that Claim is compare-and-swap on it.
	Fence map[string]string
}

// Claim is the right to work on a unit, until it lapses.
type Claim struct {
	Unit  Unit
	Owner string
	Until time.Time
	// Known is what had been recorded when the claim was taken.
	Known Known
}

// Errors of the ledger.
var (
	// ErrNotFound: there is no such activity, or it is past its retention.
	ErrNotFound = errors.New("no such activity")
	// ErrClaimed: another worker holds the unit or has just changed it.
	ErrClaimed = errors.New("claimed by another worker")
	// ErrExists: an activity of that id is recorded already.
	ErrExists = errors.New("activity exists")
)

// Store is what the ledger needs of its storage.
type Store interface {
	// CreateActivity records an activity. Repeating it with the same record is
	// harmless. One write of one unit for a typical activity.
	CreateActivity(ctx context.Context, r Record) error
	// CreateOrdered records an activity whose id is derived from its
	// deduplication key, unless the activity prev (the id the key had in the
	// previous period) was created at or after since, or r.ID exists: then it
	// returns that record and created false. Atomic where contested is set,
	// which costs a transaction: two callers on the two sides of the turn of a
	// period agree on one id.
	CreateOrdered(ctx context.Context, r Record, prev activity.ID, since time.Time, contested bool) (existing Record, created bool, err error)
	// DropActivity forgets an activity whose send definitely failed.
	DropActivity(ctx context.Context, id activity.ID) error
	// Activity returns the record of an activity, or ErrNotFound.
	Activity(ctx context.Context, id activity.ID) (Record, error)
	// CancelActivity marks an activity as cancelled, or ErrNotFound.
	CancelActivity(ctx context.Context, id activity.ID) error

	// PlanChunks records which targets the chunks from first on have.
	// Idempotent.
	PlanChunks(ctx context.Context, id activity.ID, first int, chunks [][]activity.Target, forget time.Time) error

	// Inspect reads all that is known of a unit, in one request.
	Inspect(ctx context.Context, u Unit) (Known, error)
	// Claim takes a unit that Inspect showed as free, or returns ErrClaimed.
	Claim(ctx context.Context, u Unit, k Known, owner string, until time.Time) (Claim, error)
	// Record writes what became of some of a claimed chunk's positions, or of
	// the claimed position. Recipients in a final state that were delivered or
	// refused at first try are folded into the chunk's record; the others get
	// their own. With done the claim ends. ErrClaimed if the claim was lost.
	// It may be called several times with more.
	Record(ctx context.Context, c *Claim, rs []Recipient, done bool) error
	// PutRecipients writes records of single positions, unclaimed, of which the
	// caller is the only writer (parked deliveries that died).
	PutRecipients(ctx context.Context, id activity.ID, rs []Recipient, forget time.Time) error

	// Chunks returns, for chunks first to last inclusive, lists and records.
	Chunks(ctx context.Context, r Record, first, last int) ([]Chunk, error)
}

// Chunk is everything recorded of one chunk.
type Chunk struct {
	Number     int
	Targets    []activity.Target // nil if not planned yet
	Touched    bool              // a worker has claimed it
	Recipients map[int]Recipient
}
