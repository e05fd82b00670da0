// Package ledger records every activity: its recipients, and the outcome of each.
//
// One record per recipient would cost more than everything else that fedpost does. So
// recipients are recorded in chunks of up to ChunkSize: the list and the outcomes of a chunk
// are written once, and only a recipient that fails gets a record of its own.
//
// A worker claims a chunk before it sends anything of the chunk: queues deliver messages twice,
// and without the claim two workers could send the same activity to a recipient.
package ledger

import (
	"context"
	"errors"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/message"
)

// ChunkSize is how many targets one delivery message and one chunk's record have at
// most. With 50, a recipient costs a few hundredths of a request, and a message is finished
// well within a function's time-out.
const ChunkSize = 50

// DefaultKeep is how long items of an activity without a record are kept after its creation.
const DefaultKeep = 14 * 24 * time.Hour

// Record is what is known of an activity as a whole. The names in its tags are stored.
type Record struct {
	ID        activity.ID       `json:"-"`
	Protocol  activity.Protocol `json:"protocol,omitempty"`
	Type      string            `json:"type,omitempty"`
	CreatedAt time.Time         `json:"-"`
	DueAt     time.Time         `json:"-"` // not before, if delayed
	ExpiresAt time.Time         `json:"-"`

	// Recipients counts the caller's recipients, Targets the inboxes after
	// collapse, in chunks of Chunk (1 for an ordered activity).
	Recipients int `json:"recipients,omitempty"`
	Targets    int `json:"targets,omitempty"`
	Chunk      int `json:"chunk,omitempty"`

	// OrderingKey is the activity's, if it is ordered.
	OrderingKey string `json:"ordering,omitempty"`

	// Fingerprint is the digest of the request. A call that repeats a deduplication
	// key with another fingerprint is refused.
	Fingerprint string `json:"fingerprint,omitempty"`

	// Metadata is the caller's; see activity.Options.
	Metadata string `json:"metadata,omitempty"`

	Cancelled bool `json:"cancelled,omitempty"`
	// Forgotten says that only a mark is left, which keeps late messages from being sent.
	// To its caller the activity is gone.
	Forgotten bool `json:"forgotten,omitempty"`
	// Lost says why the message that stood for the whole activity was given up, or is
	// empty. Recipients that no other message stands for are dead.
	Lost string `json:"lost,omitempty"`

	// Forget is when the table may drop all records of the activity, and from when callers do not
	// see it. The mark that it is cancelled is kept for longer, for workers.
	Forget time.Time `json:"-"`

	// Inline lists the targets if they all fit in one chunk; otherwise each
	// chunk has its own list.
	Inline []activity.Target `json:"inline,omitempty"`
}

// Gone reports whether callers do not see r any more at now.
func (r Record) Gone(now time.Time) bool {
	return r.Forgotten || !r.Forget.IsZero() && !r.Forget.After(now)
}

// Chunks is how many chunks the targets of r make.
func (r Record) Chunks() int {
	if r.Chunk < 1 {
		return 0
	}
	return (r.Targets + r.Chunk - 1) / r.Chunk
}

// Recipient is the record of one target.
type Recipient struct {
	Chunk    int
	Position int
	Target   activity.Target
	State    activity.State

	Attempts int
	// Unsent is the number of attempts that ended before a request was made. They count
	// against the policy's limit like others.
	Unsent        int
	LastStatus    int
	LastError     string
	Response      string
	Note          string
	NextAttemptAt time.Time
	UpdatedAt     time.Time
	// Tries are the last attempts, if the first did not get through.
	Tries Tries
	// Lot names the lot in which a target is parked; see LotName.
	Lot string

	// Generation fences the target's messages; see message.Delivery.
	Generation int

	// By is the activity that made this one redundant or superseded it.
	By activity.ID

	// Own is true once a worker has claimed the target by a message of its own: the
	// chunk's workers then leave the target alone. Read only.
	Own bool
	// Claimed is until when a worker holds the target by itself; zero if none.
	// Read only.
	Claimed time.Time
}

// Unit identifies the target of an activity whose record r is.
func (r Recipient) Unit(id activity.ID) message.Unit {
	return message.Unit{Activity: id, Chunk: r.Chunk, Position: r.Position, Generation: r.Generation}
}

// JournalEntry has outcomes of a claimed unit for a journal: they are not recorded yet.
type JournalEntry struct {
	Unit       message.Unit
	Recipients []Recipient
	// Forget is the record's, or zero if there is no record. An entry is kept for as long as the
	// record, because its outcomes may never be recorded.
	Forget time.Time
}

// Known is what the ledger knows about a unit when a worker takes it up.
type Known struct {
	Record Record
	// Found is whether there is a Record. After its retention there is none.
	Found bool
	// Recipients has all that is recorded, by position: by the chunk's worker, and by
	// workers of a single position (Own). The chunk's worker attempts exactly the
	// positions that are missing here. Target is set only if Record lists the
	// targets; messages carry them in any case.
	Recipients map[int]Recipient
	// Claimed is the time until which another worker holds the unit; zero if none
	// does. A single position is also held while its chunk's worker may be sending
	// to it.
	Claimed time.Time
	// Lapsed is true if the last worker did not end its claim. It may have died after it
	// recorded a target as retrying and before it sent the target's own message. So targets
	// that are retrying and not Own need another message, of the next generation.
	Lapsed bool

	// Journal is the name of the journal in which the claimant writes outcomes before
	// it records them. The claimant sets Journal; empty means that it has no journal.
	Journal string

	// Basis is the condition of the store's next write. Only the store reads it.
	Basis any
}

// Claim is the right to work on a unit, until it lapses.
type Claim struct {
	Unit  message.Unit
	Owner string
	// Until is when the claim lapses. A later time prolongs the claim with the next
	// Record.
	Until time.Time
	// Known is what was recorded when the claim was taken. It may be more than
	// Inspect had shown, so workers go by Known.
	Known Known
}

var (
	// ErrNotFound: there is no such activity, or it is past its retention.
	ErrNotFound = errors.New("no such activity")
	// ErrClaimed: another worker holds the unit or has just changed it.
	ErrClaimed = errors.New("claimed by another worker")
	// ErrStale: the message at hand has to be dropped, because a later message of the
	// same target exists, or because the target's state is final.
	ErrStale = errors.New("the message is out of date")
	// ErrNoContent: the activity is not kept, or no longer.
	ErrNoContent = errors.New("the activity is not kept")
	// ErrNoBody: the body of an activity is stored by itself, and cannot be read.
	ErrNoBody = errors.New("a part of the body is missing or damaged")
	// ErrExists: an activity of that id is recorded already.
	ErrExists = errors.New("activity exists")
)

// Store is what the ledger needs of its storage.
type Store interface {
	Index
	// CreateActivity records an activity, in one write of one unit for a typical one. Repeating it
	// with the same record changes nothing (not even a cancellation); another record under the same
	// id is ErrExists. It replaces a pointer of CreateOrdered: the id has an activity of its own
	// after all. Times are kept to the millisecond.
	CreateActivity(ctx context.Context, r Record) error
	// CreateOrdered records an activity whose id is derived from its deduplication
	// key. If the activity prev (the key's id in the previous period) was created at
	// or after since, or if r.ID exists, it returns that record and created is false.
	//
	// Callers set contested shortly after a period has begun. CreateOrdered is then a
	// transaction, so that callers on both sides of that time agree on one id.
	CreateOrdered(ctx context.Context, r Record, prev activity.ID, since time.Time, contested bool) (existing Record, created bool, err error)
	// DropActivity forgets an activity whose send definitely failed.
	DropActivity(ctx context.Context, id activity.ID) error
	// Activity returns the record of an activity, or ErrNotFound.
	Activity(ctx context.Context, id activity.ID) (Record, error)
	// CancelActivity marks an activity as cancelled, or returns ErrNotFound. The record then
	// outlives its Forget, and all deliveries that may still wait.
	CancelActivity(ctx context.Context, id activity.ID) error
	// ForgetActivity removes all that is recorded of an activity, and leaves a mark that
	// it is cancelled and forgotten. It may be repeated.
	ForgetActivity(ctx context.Context, id activity.ID) error
	// LoseActivity sets Record.Lost, or returns ErrNotFound. first is false if it was
	// set before.
	LoseActivity(ctx context.Context, id activity.ID, why string) (first bool, err error)
	// KeepActivity sets until when an activity can be looked up, or returns
	// ErrNotFound. Its chunks' records keep their own expiry, because they keep a late
	// copy of a message from being sent.
	KeepActivity(ctx context.Context, id activity.ID, until time.Time) error

	// KeepContent keeps an activity as it is sent, so that recipients that refused it can
	// be tried again: one write of one unit for a typical one. Repeating it is harmless.
	KeepContent(ctx context.Context, a activity.Activity, until time.Time) error
	// Content returns what KeepContent has kept, or ErrNoContent. The error of what is damaged
	// wraps ErrNoBody.
	Content(ctx context.Context, id activity.ID) (activity.Activity, error)
	// KeepBody stores the body of an activity once, at least until a time, for the messages and
	// items that need it. It costs one read, and the body's write units the first time. It
	// never shortens the time of a stored body.
	KeepBody(ctx context.Context, a activity.Activity, until time.Time) (activity.Apart, error)
	// Body returns the body of an activity that was stored once, or an error that wraps
	// ErrNoBody.
	Body(ctx context.Context, a activity.Activity) (string, error)
	// PlanChunks records which targets the chunks from first on have.
	// Idempotent.
	PlanChunks(ctx context.Context, id activity.ID, first int, chunks [][]activity.Target, forget time.Time) error

	// Inspect reads all that is known of a unit: one request (two at once for a
	// whole chunk but the first).
	Inspect(ctx context.Context, u message.Unit) (Known, error)
	// Claim takes a unit that Inspect showed as free, or returns ErrClaimed: one write
	// of one unit, and one read. Claim is idempotent for an owner, which is the name
	// of one receive of one message. For a single position it returns ErrStale if the
	// record has a later generation or a final state; a later generation than the
	// record's revives a dead recipient.
	Claim(ctx context.Context, u message.Unit, k Known, owner string, until time.Time) (Claim, error)
	// Record writes outcomes of a claimed chunk, or of a claimed position, in one
	// write whatever their number. done ends the claim. If the claim was lost, Record
	// writes nothing and returns ErrClaimed. It may be called again with further
	// outcomes, and repeated after an error.
	Record(ctx context.Context, c *Claim, rs []Recipient, done bool) error
	// WriteJournal writes outcomes of any number of claimed units as the n-th item of a journal, in
	// one write. If a unit's claim lapses before the unit is recorded, Inspect finds the
	// outcomes there: long errors cut, without answers. A journal has one writer.
	WriteJournal(ctx context.Context, journal string, n int, entries []JournalEntry) error
	// PutRecipients records outcomes of single positions without a claim (parked
	// deliveries that died). It skips positions that have another final state, a
	// claim, or a later generation, and returns those that now are as given. Repeating
	// it is harmless.
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

// Listed is an activity in a list: the properties by which it is found. The names in its tags
// are stored.
type Listed struct {
	ID activity.ID `json:"-"`
	// ActivityID is the activity's own id, as its author wrote it; may be empty.
	ActivityID string `json:"id,omitempty"`
	// Sender is the actor or, if the activity is forwarded for another, the owner of its
	// key. Actor is what the activity says.
	Sender string `json:"sender,omitempty"`
	Actor  string `json:"actor,omitempty"`
	Type   string `json:"type,omitempty"`
	KeyID  string `json:"keyId,omitempty"`
	// Object is the id of what the activity is about; may be empty.
	Object string `json:"object,omitempty"`
	// Bytes is the length of its body; 0: not known.
	Bytes     int       `json:"bytes,omitempty"`
	CreatedAt time.Time `json:"-"`
	// Forget is when the table may drop it from all lists.
	Forget time.Time `json:"-"`
	// Cursor goes on after this activity. It is set by FindActivities.
	Cursor string `json:"-"`
}

// Sought selects activities: by ID, by ActivityID, or by Sender and Since together. A zero Since
// is SoughtBack ago.
type Sought struct {
	ID         activity.ID
	ActivityID string
	Sender     string
	Since      time.Time
}

// Bounds of a search by time.
const (
	// SoughtBack is how far back a search without a beginning goes.
	SoughtBack = 7 * 24 * time.Hour
	// LongestBack is how far back any search goes.
	LongestBack = 60 * 24 * time.Hour
)

type Index interface {
	// ListActivities puts activities on the lists: one write unit each for the list of
	// their day, and one for that of their own id, if they have one.
	// Repeating it is harmless.
	ListActivities(ctx context.Context, ls []Listed) error
	// FindActivities returns up to limit activities after a cursor: by their own id in
	// the order of their creation, else the last first. A page may be shorter, even empty,
	// and not be the last: each call reads a bounded amount. One that is sought by ID is
	// found if it is on a list. The error wraps ErrBadCursor.
	FindActivities(ctx context.Context, s Sought, cursor string, limit int) (ls []Listed, next string, err error)
}
