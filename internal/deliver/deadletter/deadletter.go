// Package deadletter keeps deliveries that were given up, so that an operator
// can see what was lost, why, and send it anew once the cause is gone.
//
// A dead delivery also lies in the queue of dead letters, where AWS's own tools
// find it; but a queue can neither be searched by host nor read without hiding
// what was read. So the table has the list, and the queue the alarm.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

// DeadLetter is a delivery that was given up, complete enough to be sent anew.
type DeadLetter struct {
	Activity activity.Activity
	// Delivery is the message, of one target, that sends it anew.
	Delivery message.Delivery
	// Last is the recipient as the ledger has it, with the last outcome.
	Last ledger.Recipient
	// Reason in a word: why it was given up.
	Reason string
	Died   time.Time
	// Forget is when the dead letter may be dropped.
	Forget time.Time
	// Damaged, if not nil, says why the dead letter cannot be read whole, and so never be
	// sent. It has a name, the day of the death and, if it was found by its host, DamagedAt.
	Damaged   error
	DamagedAt string
}

// Host is the authority of the server that l was for.
func (l DeadLetter) Host() string {
	if l.Last.Target.Inbox == "" {
		return l.DamagedAt
	}
	return l.Last.Target.Host()
}

// Revives reports whether l is sent anew by itself if its server comes back before now.
func (l DeadLetter) Revives(now time.Time) bool {
	return l.Damaged == nil && l.Delivery.Revive.After(now) && !l.Activity.Expired(now)
}

// Name identifies a dead letter. Adding the same delivery again on the same day
// gives the same name.
type Name struct {
	Day string // of the death, in UTC: 2026-11-21
	message.Unit
}

// Name is how l is found again.
func (l DeadLetter) Name() Name {
	return Name{l.Died.UTC().Format(time.DateOnly), l.Last.Unit(l.Activity.ID)}
}

// String is the name as clients see it.
func (n Name) String() string {
	return fmt.Sprintf("%s.%s.%d.%d.%d", n.Day, n.Activity, n.Chunk, n.Position, n.Generation)
}

// ErrNotFound says that there is no dead letter of that name.
var ErrNotFound = errors.New("no such dead letter")

// ParseName reads a name as a client sent it. Its error wraps ErrNotFound.
func ParseName(s string) (Name, error) {
	f := strings.Split(s, ".")
	if len(f) != 5 {
		return Name{}, fmt.Errorf("%w: %q", ErrNotFound, s)
	}
	_, errDay := time.Parse(time.DateOnly, f[0])
	id, errID := activity.ParseID(f[1])
	n := Name{Day: f[0], Unit: message.Unit{Activity: id}}
	errs := []error{errDay, errID}
	for i, p := range []*int{&n.Chunk, &n.Position, &n.Generation} {
		var err error
		*p, err = strconv.Atoi(f[2+i])
		errs = append(errs, err)
	}
	if errors.Join(errs...) != nil || n.String() != s {
		return Name{}, fmt.Errorf("%w: %q", ErrNotFound, s)
	}
	return n, nil
}

// Filter selects the dead letters that match all fields that are set.
type Filter struct {
	Name     Name
	Host     string
	Activity activity.ID
	Type     string // of the activity, such as "Create"
	// Since: that died at or after. It is also how far back a list begins.
	Since time.Time
}

// Matches reports whether l is selected.
func (f Filter) Matches(l DeadLetter) bool {
	return (f.Name == Name{} || f.Name == l.Name()) &&
		(f.Host == "" || f.Host == l.Host()) &&
		(f.Activity == "" || f.Activity == l.Activity.ID) &&
		(f.Type == "" || f.Type == l.Activity.Type) &&
		!l.Died.Before(f.Since)
}

// Store keeps dead letters.
type Store interface {
	// AddDeadLetters keeps dead letters. Repeating it is harmless.
	AddDeadLetters(ctx context.Context, ls []DeadLetter) error
	// KeepBody is ledger.Store's.
	KeepBody(ctx context.Context, a activity.Activity, until time.Time) (activity.Apart, error)
	// DeadLetters returns up to limit dead letters that f selects, after a cursor: day by
	// day from f.Since on or, with a host, in the order of the host's index, which is day
	// by day in each of its parts. A page may be shorter, even empty, and not be the
	// last: each call reads a bounded amount. The error wraps ErrBadCursor.
	DeadLetters(ctx context.Context, f Filter, cursor string, limit int) (ls []DeadLetter, next string, err error)
	// Named returns those of the named dead letters that exist.
	Named(ctx context.Context, names []Name) ([]DeadLetter, error)
	// Revivable returns up to limit dead letters of a host, after a cursor, that died at or
	// after since because the host was down: either those of ordered activities or the
	// others, with those that are damaged. A page may be shorter, even empty, and not be the
	// last.
	Revivable(ctx context.Context, host string, ordered bool, since time.Time, cursor string, limit int) (ls []DeadLetter, next string, err error)
	// LeaveDead keeps dead letters that were Revivable, and are so no more.
	LeaveDead(ctx context.Context, ls []DeadLetter) error
	// RemoveDeadLetters removes dead letters. Removing a missing one is no error.
	RemoveDeadLetters(ctx context.Context, ls []DeadLetter) error
}

// Longest is the longest time that dead letters are kept, and so how far back a
// list without a beginning goes.
const Longest = 60 * 24 * time.Hour

// ErrBadCursor says that a cursor is not one that was given out.
var ErrBadCursor = errors.New("no such cursor")
