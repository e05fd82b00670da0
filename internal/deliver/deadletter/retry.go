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

// Retrier gives failed or dead recipients of an activity fresh attempts.
//
// A failed recipient gets a message of the next epoch (message.NextEpoch), a dead one the
// message of its dead letter. The ledger fences both by generation: of two requests only one
// leads to attempts. Afterwards a failed recipient is recorded as queued, and a dead one has no
// dead letter, so that a later request sends nothing.
type Retrier struct {
	Ledger  ledger.Store
	Reviver Reviver
}

// Choice selects recipients of an activity.
type Choice struct {
	Failed, Dead bool
	// Inboxes, if not nil, are the only ones; Host, if not empty, is the only host.
	Inboxes map[string]bool
	Host    string
	// Since selects those that ended at or after it.
	Since time.Time
}

func (c Choice) takes(r ledger.Recipient) bool {
	return (c.Failed && r.State == activity.Failed || c.Dead && r.State == activity.Dead) &&
		(c.Inboxes == nil || c.Inboxes[r.Target.Inbox]) && (c.Host == "" || c.Host == r.Target.Host()) && !r.UpdatedAt.Before(c.Since)
}

// Retried is the result of a retry.
type Retried struct {
	// Sent counts recipients that get fresh attempts.
	Sent int
	// Unavailable counts recipients whose activity is no longer stored, or damaged.
	Unavailable int
	// Next is the cursor for the rest; empty at the end.
	Next string
}

// Errors of a retry.
var (
	ErrCancelled = errors.New("the activity was cancelled")
	ErrExpired   = errors.New("the activity has expired")
)

const retryStep = 20

// Retry retries recipients of an activity, from a cursor on, until there are no more or the
// time is end. Its error wraps ErrCancelled, ErrExpired, ErrBadCursor or ledger.ErrNotFound;
// the result has what was sent before.
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

// recordsIn is how long a retried message waits, while its recipient is recorded as queued.
const recordsIn = 2 * time.Second

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
		// If a worker has received a message meanwhile, the worker's record is newer, and stays.
		_, errPut := r.Ledger.PutRecipients(ctx, rec.ID, queued, rec.Forget)
		err = errors.Join(err, errPut)
	}
	return err
}

// unavailable reports whether an activity is no longer stored, or damaged.
func unavailable(err error) bool {
	return errors.Is(err, ledger.ErrNoContent) || errors.Is(err, ledger.ErrNoBody)
}

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

// retryCursor is the prefix of a cursor, which is a chunk.
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
