// Package events is the feed of what the application that uses fedpost may want to act
// on: an inbox that is gone, a delivery that was given up, a server that went down.
//
// # What is promised
//
// Every final state of a recipient that is worth an event (an end) has one event, and a reader who
// follows the feed's cursors sees each event once, whatever crashes and whatever the clocks of the
// writers show. Events come in the order of their times, to within Lag.
//
// # Why a log of numbers and not of times
//
// A feed that is sorted by time needs a moment after which nobody writes an earlier time. With
// clocks that differ and processes that pause, there is none without a lock. So the feed has
// Shards logs, and each log numbers its items without a gap: a writer reads the last item n and
// puts item n+1 on the condition that there is none. A reader that has read up to n has read all
// there will ever be up to n, and a cursor is one number per log. Times only merge the logs for
// reading. A writer never puts a time below that of the item before it, so each log is sorted by
// time, too.
//
// # Why an end has one event
//
// An end is recorded first, then appended to a log (Store.AppendEnds), and then its queue message is
// deleted. If a process dies in between, whoever receives the message again appends the recorded
// end. The log of an end follows from its activity. A writer reads its log back to the time of the
// end, leaves out the events that it finds, and puts the others after the last item. If another
// writer was faster, the number is taken, and the writer reads again. So of two writers of the same
// end, one finds the other's event. The time of an item is never before that of its ends, so
// reading back to the time of the end is enough.
//
// A server's state and the event of its change are written in one transaction.
//
// # What it costs
//
// An invocation writes all of its ends of a log in one item, so an end costs a share of a write
// unit, and a read of the log's end. An inbox that is gone costs one more write, of its count.
// Nothing is written for a delivery that succeeds.
package events

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/ledger"
)

type Kind string

const (
	// RecipientGone: an inbox has answered 404 or 410 to anything but a Delete.
	RecipientGone Kind = "recipient.gone"
	// RecipientFailed: a delivery was refused for good.
	RecipientFailed Kind = "recipient.failed"
	// RecipientDead: all attempts failed, and there is a dead letter.
	RecipientDead Kind = "recipient.dead"
	// ServerUnhealthy: deliveries to a server wait until the server answers.
	ServerUnhealthy Kind = "server.unhealthy"
	// ServerExhausted: a server is down for longer than deliveries wait.
	ServerExhausted Kind = "server.exhausted"
	// ServerGone: a server answers that it is gone.
	ServerGone Kind = "server.gone"
	// ServerRecovered: a server that had one of the events above accepts again.
	ServerRecovered Kind = "server.recovered"
	// ActivityDone: all recipients of an activity that was sent with notify are finished.
	ActivityDone Kind = "activity.done"
	// WebhookDisabled: a webhook has failed for too long.
	WebhookDisabled Kind = "webhook.disabled"
	// OutboxRefused: the API refuses the request of a row of the outbox.
	OutboxRefused Kind = "outbox.refused"
)

var Kinds = []Kind{RecipientGone, RecipientFailed, RecipientDead, ServerUnhealthy, ServerExhausted, ServerGone, ServerRecovered, ActivityDone, WebhookDisabled, OutboxRefused}

// Event is one entry of the feed. Fields that do not apply are zero. The names in its tags are
// stored.
type Event struct {
	// ID follows from what has ended, so a repetition has the same.
	ID   string `json:"i"`
	Kind Kind   `json:"k"`
	// Time is when it was written to the feed, at most Lag after it happened.
	Time time.Time `json:"-"`

	ActivityID activity.ID `json:"a,omitempty"`
	About      About       `json:"o,omitzero"`
	Inbox      string      `json:"x,omitempty"` // canonical
	Written    string      `json:"w,omitempty"` // the inbox as the caller wrote it, if that differs
	Host       string      `json:"h,omitempty"`
	// Status is the last answer's; 0: there was none.
	Status int `json:"c,omitempty"`
	// Reason in words.
	Reason string `json:"r,omitempty"`
	// Count is how many activities the inbox has refused as gone since Since, this one
	// included. Since is also when a server's outage began.
	Count int       `json:"n,omitempty"`
	Since time.Time `json:"-"`
	// Counts is how many recipients of an activity that is done are in each state.
	Counts map[activity.State]int `json:"z,omitempty"`
}

// About has properties of an activity.
type About struct {
	ID    string `json:"i,omitempty"`
	Type  string `json:"t,omitempty"`
	Actor string `json:"a,omitempty"`
	// Metadata is the caller's; see activity.Options.
	Metadata string `json:"m,omitempty"`
}

// Lag is how far events may be out of the order of their times, because the clocks of writers
// differ and a write takes time.
const Lag = 5 * time.Second

// Keep is how long events are kept, by default.
const Keep = 30 * 24 * time.Hour

// End is the final state of a recipient, if that is worth an event.
type End struct {
	Event
	// At is when it was recorded: the same for each repetition.
	At time.Time
}

// longestText and longestName bound the bytes of an event's reason and names. A longer reason is
// cut, a longer name left out.
const (
	longestText = 300
	longestName = 2048
)

// EndOf returns the end of a recipient of an activity, and false if its state is not worth
// an event. r.Target is the recipient's, which not every record has.
func EndOf(id activity.ID, about About, r ledger.Recipient) (End, bool) {
	kind, ok := kindOf(about.Type, r)
	if !ok {
		return End{}, false
	}
	return End{At: r.UpdatedAt, Event: Event{
		ID:   name(string(id), fmt.Sprintf("%d/%d/%d", r.Chunk, r.Position, r.Generation), string(kind)),
		Kind: kind, ActivityID: id, About: about.short(), Inbox: r.Target.Inbox, Written: r.Target.Written, Host: r.Target.Host(),
		Status: r.LastStatus, Reason: outcome.Clean(cmp.Or(r.LastError, r.Note), longestText),
	}}, true
}

// kindOf is the kind of event that a recipient's end is worth. A 404 or 410 to a Delete says
// nothing of the inbox: servers such as GoToSocial answer so when they cannot fetch the key of
// an actor that is deleted, or do not know what was deleted.
func kindOf(activityType string, r ledger.Recipient) (Kind, bool) {
	switch {
	case r.State == activity.Dead:
		return RecipientDead, true
	case r.State != activity.Failed:
		return "", false
	case (r.LastStatus == http.StatusNotFound || r.LastStatus == http.StatusGone) && activityType != "Delete":
		return RecipientGone, true
	}
	return RecipientFailed, true
}

// short leaves out what is too long to be a name.
func (a About) short() About {
	for _, s := range []*string{&a.ID, &a.Type, &a.Actor} {
		if len(*s) > longestName {
			*s = ""
		}
		*s = outcome.Clean(*s, longestName)
	}
	return a
}

// OfServer returns the event of a server's change. since is when the new state began.
func OfServer(kind Kind, host, reason string, since time.Time) Event {
	return Event{
		ID: name("server", host, string(kind), since.UTC().Format(time.RFC3339Nano)), Kind: kind,
		Host: host, Reason: outcome.Clean(reason, longestText), Since: since,
	}
}

// OfActivity returns the event of an activity that is done. counts are its recipients by state.
func OfActivity(id activity.ID, about About, counts map[activity.State]int) Event {
	return Event{
		ID: name("done", string(id)), Kind: ActivityDone, ActivityID: id, About: about.short(),
		Reason: inWords(counts), Counts: counts,
	}
}

// inWords counts recipients by state, such as "3 delivered, 1 failed".
func inWords(counts map[activity.State]int) string {
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// OfRow returns the end of a row of the outbox that is refused. A worker's clock may be behind the
// database server's, which has set created: so the time of the end is Lag earlier.
func OfRow(id int64, reason string, created time.Time) End {
	row := strconv.FormatInt(id, 10)
	return End{At: created.Add(-Lag), Event: Event{
		ID:   name("outbox", row, created.UTC().Format(time.RFC3339Nano)),
		Kind: OutboxRefused, Reason: outcome.Clean("row "+row+": "+reason, longestText), Since: created,
	}}
}

// OfWebhook returns the event of a webhook that is disabled because it has failed since a
// time.
func OfWebhook(id, host, reason string, since time.Time) Event {
	e := OfServer(WebhookDisabled, host, "webhook "+id+": "+reason, since)
	e.ID = name("webhook", id, since.UTC().Format(time.RFC3339Nano))
	return e
}

// name is an id made of parts. The prefix distinguishes it from other ids.
func name(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s ", len(p), p)
	}
	return "evt_" + base32.StdEncoding.EncodeToString(h.Sum(nil)[:15])
}

// Page is a part of the feed.
type Page struct {
	Events []Event
	// Next is the cursor after Events. It is never empty.
	Next string
	// More is true if there is more to read at once.
	More bool
}

// ErrBadCursor says that the feed did not give out a cursor.
var ErrBadCursor = errors.New("no such cursor")

// Store is what the feed needs of its storage.
type Store interface {
	// AppendEnds appends the events of ends that the feed does not have. Repeating it is
	// harmless, also by other processes.
	AppendEnds(ctx context.Context, ends []End) error
	// Events returns up to limit events after a cursor, the oldest first; an empty cursor is
	// the beginning of the feed. The error wraps ErrBadCursor.
	Events(ctx context.Context, after string, limit int) (Page, error)
	// EventsEnd returns the cursor after all events.
	EventsEnd(ctx context.Context) (string, error)
}
