// Package deadletter keeps deliveries that were given up, for an operator to look at and to
// retry.
//
// They are in the dead-letter queue, too, for alarms and AWS's own tools. But a queue cannot be
// searched, and reading it hides what was read; so the table has the list.
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

// DeadLetter is a delivery that was given up, complete enough to be sent again.
type DeadLetter struct {
	Activity activity.Activity
	// Delivery is the message, to one target, that sends it again.
	Delivery message.Delivery
	// Last is the recipient's record.
	Last ledger.Recipient
	// Reason in one word, such as "exhausted".
	Reason string
	Died   time.Time
	// Forget is when the dead letter may be dropped.
	Forget time.Time
	// Damaged, if not nil, says why the dead letter cannot be read, and so never sent. Such a dead
	// letter has a name, the day of the death and, if it was found by its host, DamagedAt.
	Damaged   error
	DamagedAt string
}

// Host is the authority of the recipient's server.
func (l DeadLetter) Host() string {
	if l.Last.Target.Inbox == "" {
		return l.DamagedAt
	}
	return l.Last.Target.Host()
}

// Revives reports whether l is revived if its server comes back now.
func (l DeadLetter) Revives(now time.Time) bool {
	return l.Damaged == nil && l.Delivery.Revive.After(now) && !l.Activity.Expired(now)
}

// Name identifies a dead letter. The same delivery added again on the same day has the same
// name.
type Name struct {
	Day string // of the death, in UTC: 2026-11-21
	message.Unit
}

// Name returns the name of l.
func (l DeadLetter) Name() Name {
	return Name{l.Died.UTC().Format(time.DateOnly), l.Last.Unit(l.Activity.ID)}
}

// String is the name as clients see it.
func (n Name) String() string {
	return fmt.Sprintf("%s.%s.%d.%d.%d", n.Day, n.Activity, n.Chunk, n.Position, n.Generation)
}

// ErrNotFound says that there is no dead letter of that name.
var ErrNotFound = errors.New("no such dead letter")

// ParseName parses what String returned. Its error wraps ErrNotFound.
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
	// Since selects those that died at or after it. A list begins there.
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
	// AddDeadLetters stores dead letters. It may be repeated.
	AddDeadLetters(ctx context.Context, ls []DeadLetter) error
	// KeepBody is ledger.Store's.
	KeepBody(ctx context.Context, a activity.Activity, until time.Time) (activity.Apart, error)
	// DeadLetters returns up to limit selected dead letters after a cursor, day by day from
	// f.Since or, with a host, in the order of the host's index. A page may be shorter, even
	// empty, and not be the last. The error wraps ErrBadCursor.
	DeadLetters(ctx context.Context, f Filter, cursor string, limit int) (ls []DeadLetter, next string, err error)
	// Named returns those of the named dead letters that exist.
	Named(ctx context.Context, names []Name) ([]DeadLetter, error)
	// Revivable returns up to limit dead letters of a host, after a cursor, that died at or
	// after since because the host was down, and damaged ones: those of ordered activities, or
	// the others. A page may be shorter, even empty, and not be the last.
	Revivable(ctx context.Context, host string, ordered bool, since time.Time, cursor string, limit int) (ls []DeadLetter, next string, err error)
	// LeaveDead makes dead letters not Revivable.
	LeaveDead(ctx context.Context, ls []DeadLetter) error
	// RemoveDeadLetters removes dead letters. Removing a missing one is no error.
	RemoveDeadLetters(ctx context.Context, ls []DeadLetter) error
}

// Longest is how long dead letters are kept at most, and how far back a list goes.
const Longest = 60 * 24 * time.Hour

// ErrBadCursor says that a cursor was not given out.
var ErrBadCursor = errors.New("no such cursor")
