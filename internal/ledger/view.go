package ledger

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/parking"
)

// Status is the state of an activity as a whole.
type Status string

// The statuses of the wire contract.
const (
	StatusQueued     Status = "queued"     // nothing has happened yet
	StatusDelivering Status = "delivering" // some recipients have a record, and not all are final
	StatusDone       Status = "done"       // every recipient is in a final state
	StatusCancelled  Status = "cancelled"  // stopped by the caller before it was done
)

// View is an activity as clients see it.
type View struct {
	ID     activity.ID
	Status Status
	// Metadata is the caller's, as JSON; empty for none.
	Metadata string
	// Counts is how many recipients are in each state. A target that stands for
	// several recipients counts as that many.
	Counts     map[activity.State]int
	Recipients []RecipientView
	NextCursor string
}

// RecipientView is one inbox of an activity as clients see it.
type RecipientView struct {
	// Inbox is canonical; Written, if not empty, is how the caller wrote it.
	Inbox, Written string
	State          activity.State
	// Recipients is how many recipients the inbox stands for; 0 means one.
	Recipients int
	Attempts   int
	LastStatus int
	LastError  string
	Response   string
	Note       string
	// Reason says in words why a recipient waits; empty in a final state. Explain fills
	// it in.
	Reason string
	// WaitsFor is the host or inbox whose circuit, pause or limit holds a parked
	// recipient. Explain fills it in.
	WaitsFor      string
	NextAttemptAt time.Time
	UpdatedAt     time.Time
	// Tries are the last attempts, if the first did not get through.
	Tries []Try
	By    activity.ID
	// Lot is the key of the server or inbox under which a recipient is parked.
	Lot string
}

// Reader is what a view needs of the storage of the ledger, and of the parking lots: a delivery
// that was parked before its first attempt has no record in the ledger.
type Reader interface {
	Activity(ctx context.Context, id activity.ID) (Record, error)
	Chunks(ctx context.Context, r Record, first, last int) ([]Chunk, error)
	IsParked(ctx context.Context, ids []parking.ID) (map[parking.ID]bool, error)
	// ParkedInGroup returns the deliveries of an ordered group that are parked under key, each
	// with its due time, which is zero if it has none.
	ParkedInGroup(ctx context.Context, key, group string) (map[parking.ID]time.Time, error)
}

// ErrBadCursor says that a cursor was not made by fedpost.
var ErrBadCursor = errors.New("no such cursor")

// MaxPage bounds a page of recipients in JSON, in bytes: a thousand answers of servers are
// megabytes. A page that would be longer ends earlier, with a cursor.
const MaxPage = 900 << 10

// rowSize is what a recipient takes in JSON beside its texts, at most.
const rowSize = 512

// longestReason is how long the reason of a recipient that waits is, in bytes.
const longestReason = 120

// trySize is what one of its last attempts takes, at most.
const trySize = 2*longestTry + 128

// viewStep is how many chunks a view reads at a time, which bounds its memory.
const viewStep = 200

// ViewOf is SelectView of all recipients.
func ViewOf(ctx context.Context, r Reader, id activity.ID, cursor string, limit int, now time.Time) (View, error) {
	return SelectView(ctx, r, id, RecipientFilter{}, cursor, limit, now)
}

// SelectView returns the state of an activity at now: the counts of all its recipients, and up to
// limit of those that f selects, from cursor on. A page with a filter may be short or empty and
// not be the last. A recipient is counted from the start, but listed only once its chunk is
// planned, a moment after the activity was accepted. The error wraps ErrNotFound or ErrBadCursor.
//
// If the activity is cancelled or expired, a recipient that no worker holds is shown as cancelled
// or expired, recorded or not: no attempt begins any more, and usually no worker records that.
func SelectView(ctx context.Context, r Reader, id activity.ID, f RecipientFilter, cursor string, limit int, now time.Time) (View, error) {
	rec, err := r.Activity(ctx, id)
	if err != nil {
		return View{}, err
	}
	if rec.Gone(now) {
		return View{}, fmt.Errorf("view of activity %s: %w", id, ErrNotFound)
	}
	from, err := parseCursor(cursor, rec.Targets)
	if err != nil {
		return View{}, err
	}
	t := &overview{
		record: rec, reader: r, now: now, counts: make(map[activity.State]int),
		filter: f, limit: max(1, limit), from: from, next: from, to: min(from+f.reach(max(1, limit)), rec.Targets),
	}
	for first := 0; first < rec.Chunks(); first += viewStep {
		chunks, err := r.Chunks(ctx, rec, first, min(first+viewStep, rec.Chunks())-1)
		if err != nil {
			return View{}, err
		}
		if err := t.add(ctx, chunks); err != nil {
			return View{}, fmt.Errorf("view of activity %s: %w", id, err)
		}
	}
	v := View{ID: rec.ID, Status: t.status(), Metadata: rec.Metadata, Counts: t.counts, Recipients: t.page}
	if v.Recipients == nil {
		v.Recipients = []RecipientView{}
	}
	if t.next > from && t.next < rec.Targets {
		v.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix + strconv.Itoa(t.next)))
	}
	return v, nil
}

// RecipientFilter selects the recipients of an activity that a view lists. Its counts are
// of all.
type RecipientFilter struct {
	State activity.State // empty: of any
	Host  string         // canonical; empty: at any
}

// filterReach is how many recipients a view with a filter reads for one page, at most.
const filterReach = 5000

// reach is how many recipients are read for a page of limit.
func (f RecipientFilter) reach(limit int) int {
	if f == (RecipientFilter{}) {
		return limit
	}
	return max(limit, filterReach)
}

func (f RecipientFilter) takes(t activity.Target, s activity.State) bool {
	return (f.State == "" || f.State == s) && (f.Host == "" || f.Host == t.Host())
}

// A cursor is the number of the target to go on with. It is encoded so that clients
// do not make cursors of their own.
const cursorPrefix = "target "

func parseCursor(s string, targets int) (int, error) {
	if s == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	number, ok := strings.CutPrefix(string(b), cursorPrefix)
	n, errNumber := strconv.Atoi(number)
	if err != nil || !ok || errNumber != nil || n < 0 || n >= targets {
		return 0, fmt.Errorf("%w: %q", ErrBadCursor, s)
	}
	return n, nil
}
