package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

// Retrier gives the recipients of one activity that have failed, or are dead, fresh
// attempts.
//
// A failed recipient gets a message of the next epoch (message.NextEpoch), a dead one the
// message of its dead letter. The ledger fences both by their generation: of two requests
// that meet, and of a request that is repeated because its caller got no answer, the
// second message finds the claim or the outcome of the first. When the message is sent, a
// failed recipient is recorded as queued, and a dead one has no dead letter any more, so
// that a later request sends nothing to either.
type Retrier struct {
	Ledger  RetryLedger
	Reviver Reviver
}

// RetryLedger is the part of ledger.Store that a retry needs.
type RetryLedger interface {
	Activity(ctx context.Context, id activity.ID) (ledger.Record, error)
	Chunks(ctx context.Context, r ledger.Record, first, last int) ([]ledger.Chunk, error)
	Content(ctx context.Context, id activity.ID) (activity.Activity, error)
	PutRecipients(ctx context.Context, id activity.ID, rs []ledger.Recipient, forget time.Time) ([]ledger.Recipient, error)
}

// Choice says which recipients of an activity are retried.
type Choice struct {
	Failed, Dead bool
	// Inboxes, if not nil, are the only ones. Host, if not empty, is that of all.
	Inboxes map[string]bool
	Host    string
	// Since: those whose end came at or after.
	Since time.Time
}

func (c Choice) takes(r ledger.Recipient) bool {
	return (c.Failed && r.State == activity.Failed || c.Dead && r.State == activity.Dead) &&
		(c.Inboxes == nil || c.Inboxes[r.Target.Inbox]) && (c.Host == "" || c.Host == r.Target.Host()) && !r.UpdatedAt.Before(c.Since)
}

// Retried is what a retry has come to.
type Retried struct {
	// Sent counts the inboxes that get fresh attempts.
	Sent int
	// Unavailable counts those of which nothing is kept to send: their dead letter was
	// dropped or just retried, their protocol keeps nothing, or what was kept is damaged.
	Unavailable int
	// Next is the cursor to go on from; empty at the end.
	Next string
}

// Errors of a retry.
var (
	ErrCancelled = errors.New("the activity was cancelled")
	ErrExpired   = errors.New("the activity has expired")
)

// retryStep is how many chunks of recipients a retry reads at a time.
const retryStep = 20

// Retry retries recipients of an activity from a cursor on until there are no more or
// the time is over. Its error wraps ErrCancelled, ErrExpired, ErrBadCursor or
// ledger.ErrNotFound; what was sent before an error is in the result.
func (r Retrier) Retry(ctx context.Context, id activity.ID, c Choice, cursor string, end time.Time) (Retried, error) {
	var done Retried
	rec, err := r.Ledger.Activity(ctx, id)
	switch {
	case err != nil:
		return done, err
	case rec.Gone(r.Reviver.Now()):
		return done, fmt.Errorf("retry activity %s: %w", id, ledger.ErrNotFound)
	case rec.Cancelled:
		return done, fmt.Errorf("retry activity %s: %w", id, ErrCancelled)
	case !rec.ExpiresAt.IsZero() && !r.Reviver.Now().Before(rec.ExpiresAt):
		return done, fmt.Errorf("retry activity %s: %w", id, ErrExpired)
	}
	first, err := parseRetryCursor(cursor, rec.Chunks())
	if err != nil {
		return done, err
	}
	for ; first < rec.Chunks(); first += retryStep {
		if first > 0 && done.Sent+done.Unavailable > 0 && !r.Reviver.Now().Before(end) {
			done.Next = retryCursor + strconv.Itoa(first)
			return done, nil
		}
		if err := r.step(ctx, rec, c, first, &done); err != nil {
			return done, fmt.Errorf("retry activity %s: %w", id, err)
		}
	}
	return done, nil
}

// step retries recipients of the chunks from first on.
func (r Retrier) step(ctx context.Context, rec ledger.Record, c Choice, first int, done *Retried) error {
	chunks, err := r.Ledger.Chunks(ctx, rec, first, min(first+retryStep, rec.Chunks())-1)
	if err != nil {
		return err
	}
	var failed, dead []ledger.Recipient
	for _, chunk := range chunks {
		for _, p := range chunk.Recipients {
			switch {
			case !c.takes(p):
			case p.State == activity.Dead:
				dead = append(dead, p)
			default:
				failed = append(failed, p)
			}
		}
	}
	return errors.Join(r.failed(ctx, rec, failed, done), r.dead(ctx, rec.ID, dead, done))
}

// recordsIn is how long the message of a failed recipient waits, in which the recipient is
// recorded as queued. A worker that meets that write comes back after some seconds.
const recordsIn = 2 * time.Second

// failed sends messages to recipients that have failed, and records that they are queued.
func (r Retrier) failed(ctx context.Context, rec ledger.Record, rs []ledger.Recipient, done *Retried) error {
	if len(rs) == 0 {
		return nil
	}
	a, err := r.Ledger.Content(ctx, rec.ID)
	if unavailable(err) {
		done.Unavailable += len(rs)
		return nil
	}
	if err != nil {
		return err
	}
	ls := make([]DeadLetter, len(rs))
	for i, p := range rs {
		ls[i] = DeadLetter{Activity: a, Last: p, Delivery: message.Delivery{
			Chunk: p.Chunk, Position: p.Position, Targets: []activity.Target{p.Target}, Generation: message.NextEpoch(p.Generation),
		}}
	}
	sent, err := r.Reviver.send(ctx, ls, recordsIn)
	done.Sent += len(sent)
	queued := make([]ledger.Recipient, len(sent))
	for i, l := range sent {
		p := l.Last
		p.State, p.Attempts, p.Unsent, p.Lot = activity.Queued, 0, 0, ""
		p.NextAttemptAt, p.UpdatedAt, p.Generation = time.Time{}, r.Reviver.Now(), l.Delivery.Generation
		queued[i] = p
	}
	if len(queued) > 0 {
		// A worker that has taken the message up already knows better, and is left alone.
		_, errPut := r.Ledger.PutRecipients(ctx, rec.ID, queued, rec.Forget)
		err = errors.Join(err, errPut)
	}
	return err
}

// unavailable reports whether an activity is not kept, or damaged, so that another look will
// find no more.
func unavailable(err error) bool {
	return errors.Is(err, ledger.ErrNoContent) || errors.Is(err, ledger.ErrNoBody)
}

// dead revives recipients from their dead letters.
func (r Retrier) dead(ctx context.Context, id activity.ID, rs []ledger.Recipient, done *Retried) error {
	if len(rs) == 0 {
		return nil
	}
	names := make([]Name, len(rs))
	for i, p := range rs {
		names[i] = DeadLetter{Activity: activity.Activity{ID: id}, Last: p, Died: p.UpdatedAt}.Name()
	}
	ls, err := r.Reviver.Store.Named(ctx, names)
	if err != nil {
		return err
	}
	ls = slices.DeleteFunc(ls, func(l DeadLetter) bool { return l.Damaged != nil })
	done.Unavailable += len(rs) - len(ls)
	n, err := r.Reviver.revive(ctx, ls)
	done.Sent += n
	return err
}

// A cursor is the chunk to go on with.
const retryCursor = "chunk."

func parseRetryCursor(s string, chunks int) (int, error) {
	if s == "" {
		return 0, nil
	}
	number, ok := strings.CutPrefix(s, retryCursor)
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 0 || n >= chunks {
		return 0, fmt.Errorf("%w: %q", ErrBadCursor, s)
	}
	return n, nil
}
