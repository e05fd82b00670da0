package ledger

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/parking"
)

// Status sums up what has become of an activity.
type Status string

// The statuses of the wire contract.
const (
	StatusQueued     Status = "queued"     // nothing has happened yet
	StatusDelivering Status = "delivering" // something has, and something is still to come
	StatusDone       Status = "done"       // every recipient is in a final state
	StatusCancelled  Status = "cancelled"  // stopped by the caller before that
)

// View is an activity as clients see it.
type View struct {
	ID     activity.ID
	Status Status
	// Counts is how many recipients are in each state. A target that stands for
	// several recipients counts as that many.
	Counts     map[activity.State]int
	Recipients []RecipientView
	NextCursor string
}

// RecipientView is one inbox of an activity as clients see it.
type RecipientView struct {
	Inbox string
	State activity.State
	// Recipients is how many the inbox stands for, if more than one.
	Recipients int
	Attempts   int
	LastStatus int
	LastError  string
	Response   string
	Note       string
	// WaitsFor is the host or inbox that holds a parked one; Explain fills it in.
	WaitsFor      string
	NextAttemptAt time.Time
	UpdatedAt     time.Time
	By            activity.ID
}

// Reader is what a view needs of the ledger's storage.
type Reader interface {
	Activity(ctx context.Context, id activity.ID) (Record, error)
	Chunks(ctx context.Context, r Record, first, last int) ([]Chunk, error)
}

// Lot is what a view needs of the parking lot: a delivery that was parked
// before anybody attempted it is nowhere else.
type Lot interface {
	IsParked(ctx context.Context, spots []parking.Spot) (map[parking.Spot]bool, error)
	// GroupSpots returns the spots that an ordered group has taken under key.
	GroupSpots(ctx context.Context, key, group string) ([]parking.Spot, error)
}

// ErrBadCursor says that a cursor is not one that was given out.
var ErrBadCursor = errors.New("no such cursor")

// MaxPage bounds a page of recipients in JSON, in bytes: their texts are what
// strangers' servers have answered, and a thousand of them make megabytes. A page
// that would be longer ends earlier, and its cursor goes on from there.
const MaxPage = 900 << 10

// rowSize is what a recipient takes in JSON beside its texts, at most.
const rowSize = 512

// viewStep is how many chunks a view reads at a time, which bounds its memory.
const viewStep = 200

// ViewOf returns what has become of an activity at now: the counts of all its
// recipients, and up to limit of them from cursor on. A recipient is listed only
// when its chunk is planned, a moment after the activity was accepted; counts
// have it from the start. The error wraps ErrNotFound or ErrBadCursor.
//
// A recipient who will never be sent to, because the activity was cancelled or
// is past its expiry, is shown so as soon as nobody is at it, recorded or not:
// no worker begins an attempt after that, and most activities that end so are
// never looked at by a worker again.
func ViewOf(ctx context.Context, r Reader, lot Lot, id activity.ID, cursor string, limit int, now time.Time) (View, error) {
	rec, err := r.Activity(ctx, id)
	if err != nil {
		return View{}, err
	}
	from, err := parseCursor(cursor, rec.Targets)
	if err != nil {
		return View{}, err
	}
	t := &overview{record: rec, lot: lot, now: now, from: from, to: min(from+max(1, limit), rec.Targets), counts: make(map[activity.State]int)}
	for first := 0; first < rec.Chunks(); first += viewStep {
		chunks, err := r.Chunks(ctx, rec, first, min(first+viewStep, rec.Chunks())-1)
		if err != nil {
			return View{}, err
		}
		if err := t.add(ctx, chunks); err != nil {
			return View{}, fmt.Errorf("view of activity %s: %w", id, err)
		}
	}
	v := View{ID: rec.ID, Status: t.status(), Counts: t.counts, Recipients: t.page}
	if v.Recipients == nil {
		v.Recipients = []RecipientView{}
	}
	if listed := from + len(t.page); len(t.page) > 0 && listed < rec.Targets {
		v.NextCursor = formatCursor(listed)
	}
	return v, nil
}

// A cursor is the number of the target to go on with, written so that nobody is
// tempted to make one.
const cursorPrefix = "target "

func formatCursor(target int) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix + strconv.Itoa(target)))
}

func parseCursor(s string, targets int) (int, error) {
	if s == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) <= len(cursorPrefix) || string(b[:len(cursorPrefix)]) != cursorPrefix {
		return 0, fmt.Errorf("%w: %q", ErrBadCursor, s)
	}
	n, err := strconv.Atoi(string(b[len(cursorPrefix):]))
	if err != nil || n < 0 || n >= targets {
		return 0, fmt.Errorf("%w: %q", ErrBadCursor, s)
	}
	return n, nil
}
