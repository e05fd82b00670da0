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
	"fedpost/internal/message"
)

// ChunkSize is how many targets one delivery message and one chunk's record
// hold: large enough that a recipient costs a few hundredths of a request,
// small enough that one message is well within a function's time limit.
const ChunkSize = 50

// Record is what is known of an activity as a whole.
type Record struct {
	ID        activity.ID
	Protocol  activity.Protocol
	Type      string
	CreatedAt time.Time
	DueAt     time.Time // not before, if delayed
	ExpiresAt time.Time

	// Recipients counts the caller's recipients, Targets the inboxes after
	// collapse, in chunks of Chunk (1 for an ordered activity).
	Recipients int
	Targets    int
	Chunk      int

	// OrderingKey is the activity's, if it is ordered.
	OrderingKey string

	// Fingerprint tells whether a repeated deduplication key comes with the
	// same request.
	Fingerprint string

	Cancelled bool

	// Forget is when the table may drop all records of the activity.
	Forget time.Time

	// Inline lists the targets if they all fit in one chunk; otherwise each
	// chunk has its own list.
	Inline []activity.Target
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
	Chunk    int
	Position int
	Target   activity.Target
	State    activity.State

	Attempts int
	// Unsent counts the tries that ended before a request was made and count
	// against the policy's tries all the same.
	Unsent        int
	LastStatus    int
	LastError     string
	Response      string
	Note          string
	NextAttemptAt time.Time
	UpdatedAt     time.Time

	// Generation fences the target's messages; see message.Delivery.
	Generation int

	// By is the activity that made this one redundant or superseded it.
	By activity.ID

	// Own: a message of its own has taken the target up, so its chunk has
	// nothing more to do with it. Read only.
	Own bool
	// Claimed is until when a worker holds the target by itself; zero if none.
	// Read only.
	Claimed time.Time
}

// Unit is what r, a recipient of an activity, is the record of.
func (r Recipient) Unit(id activity.ID) message.Unit {
	return message.Unit{Activity: id, Chunk: r.Chunk, Position: r.Position, Generation: r.Generation}
}

// Note is what became of some positions of a claimed unit that is not recorded
// yet.
type Note struct {
	Unit       message.Unit
	Recipients []Recipient
	// Forget is that of the activity's record, zero if there is none: what is noted
	// is to be read for as long, as nobody may have reason to record it.
	Forget time.Time
}

// Known is what the ledger knows about a unit when a worker takes it up.
type Known struct {
	Record Record
	// Found tells whether Record was there at all: it is not after its
	// retention.
	Found bool
	// Recipients holds, by position, everything recorded: by the chunk's worker
	// and by those that took a position up by itself (Own). A position of a
	// chunk that is missing here is the chunk's to attempt; one that is here is
	// not. Target is set only if Record lists the targets: messages carry them.
	Recipients map[int]Recipient
	// Claimed is set while another worker holds the unit, until when. A single
	// position counts as held, too, while its chunk's worker may be at it.
	Claimed time.Time
	// Lapsed: the last worker did not end its claim. It may have died between
	// recording a target as retrying and sending that target's own message: of
	// the targets that are retrying and not Own, messages have to be sent again,
	// with the next generation.
	Lapsed bool

	// Journal names where whoever claims the unit will note outcomes before it
	// records them. The claimant sets it; empty if it notes none.
	Journal string

	// Basis is what the store read, so that its writes are compare-and-swap on
	// it. Nobody else looks into it.
	Basis any
}

// Claim is the right to work on a unit, until it lapses.
type Claim struct {
	Unit  message.Unit
	Owner string
	// Until is when it lapses. Moving it prolongs the claim with the next
	// Record.
	Until time.Time
	// Known is what had been recorded when the claim was taken: it may be more
	// than Inspect had shown, so go by this.
	Known Known
}

// Errors of the ledger.
var (
	// ErrNotFound: there is no such activity, or it is past its retention.
	ErrNotFound = errors.New("no such activity")
	// ErrClaimed: another worker holds the unit or has just changed it.
	ErrClaimed = errors.New("claimed by another worker")
	// ErrStale: a later message of the same target exists, or the target has
	// come to its final state: the message at hand is to be dropped.
	ErrStale = errors.New("the message is out of date")
	// ErrExists: an activity of that id is recorded already.
	ErrExists = errors.New("activity exists")
)

// Store is what the ledger needs of its storage.
type Store interface {
	// CreateActivity records an activity. Repeating it with the same record is
	// harmless and changes nothing (not even a cancellation); another one under
	// its id is ErrExists. One write of one unit for a typical activity. Times
	// are kept to the millisecond.
	CreateActivity(ctx context.Context, r Record) error
	// CreateOrdered records an activity whose id is derived from its
	// deduplication key, unless the activity prev (the id the key had in the
	// previous period) was created at or after since, or r.ID exists: then it
	// returns that record and created false. Where contested is set, by callers
	// just after the turn of a period, it is atomic with what callers still
	// before the turn do, which costs a transaction: both agree on one id.
	CreateOrdered(ctx context.Context, r Record, prev activity.ID, since time.Time, contested bool) (existing Record, created bool, err error)
	// DropActivity forgets an activity whose send definitely failed.
	DropActivity(ctx context.Context, id activity.ID) error
	// Activity returns the record of an activity, or ErrNotFound.
	Activity(ctx context.Context, id activity.ID) (Record, error)
	// CancelActivity marks an activity as cancelled, or ErrNotFound.
	CancelActivity(ctx context.Context, id activity.ID) error
	// KeepActivity sets until when an activity can be looked up, or ErrNotFound.
	// What its chunks have recorded stays for as long as it was to: that keeps a
	// late copy of a message from being sent.
	KeepActivity(ctx context.Context, id activity.ID, until time.Time) error

	// PlanChunks records which targets the chunks from first on have.
	// Idempotent.
	PlanChunks(ctx context.Context, id activity.ID, first int, chunks [][]activity.Target, forget time.Time) error

	// Inspect reads all that is known of a unit: one request (two at once for a
	// whole chunk but the first).
	Inspect(ctx context.Context, u message.Unit) (Known, error)
	// Claim takes a unit that Inspect showed as free, or returns ErrClaimed. It
	// is idempotent for an owner, which names one attempt at one message. A
	// single position is ErrStale if the unit's generation is behind the
	// record's, or if its state is final; but a later generation than recorded
	// revives one that is dead. One write of one unit and one read.
	Claim(ctx context.Context, u message.Unit, k Known, owner string, until time.Time) (Claim, error)
	// Record writes what became of some of a claimed chunk's positions, or of
	// the claimed position: one write, whatever the number. With done the claim
	// ends. ErrClaimed, with nothing written, if the claim was lost. It may be
	// called several times with more, and repeated after an error.
	Record(ctx context.Context, c *Claim, rs []Recipient, done bool) error
	// Note keeps what became of positions of any number of claimed units, as the
	// n-th item of a journal, until the units are recorded: one write for all. If a
	// unit's claim lapses, whoever inspects the unit finds what was noted; of long
	// errors only the beginning, of answers nothing. A journal has one writer.
	Note(ctx context.Context, journal string, n int, notes []Note) error
	// PutRecipients records what became of single positions that nobody holds
	// (parked deliveries that died). It leaves alone those that are final
	// otherwise, held, or of a later generation, and returns those that now are
	// as given; repeating it is harmless.
	PutRecipients(ctx context.Context, id activity.ID, rs []Recipient, forget time.Time) (put []Recipient, err error)

	// Chunks returns, for chunks first to last inclusive, lists and records.
	Chunks(ctx context.Context, r Record, first, last int) ([]Chunk, error)
}

// Chunk is everything recorded of one chunk.
type Chunk struct {
	Number     int
	Targets    []activity.Target // nil if not planned yet
	Touched    bool              // a worker has claimed it or one of its positions
	Recipients map[int]Recipient
	// Claimed is until when a worker holds the whole chunk; zero if none.
	Claimed time.Time
}
