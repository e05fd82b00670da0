package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// Returner parks deliveries again that died because their server was down, when it is back.
// They are released like all others.
//
// The spots are written first, then the recipients' records, then the dead letters are removed.
// After a crash the next call removes the dead letter, or parks again in the same spot, which
// is harmless: of two messages of one generation one counts.
type Returner struct {
	Store  Store
	Ledger ledger.Store
	Lot    *parking.Lot
	Log    *slog.Logger
	// GiveUp is how long a delivery of a protocol may wait for its server.
	GiveUp func(activity.Protocol) time.Duration
}

// ParkAgain takes a page of up to n dead deliveries to a host, after a cursor, that died at or
// after since: ordered ones, or the others. It returns how many it has parked, and a cursor if
// there may be more. Those that cannot be revived (cancelled, expired or damaged) stay dead for
// good.
func (r Returner) ParkAgain(ctx context.Context, host string, ordered bool, since time.Time, cursor string, n int) (parked int, next string, err error) {
	if within := r.Lot.Now().Add(-r.Lot.Rules.Revive); since.Before(within) {
		since = within
	}
	ls, next, err := r.Store.Revivable(ctx, host, ordered, since, cursor, n)
	if err == nil {
		parked, err = r.page(ctx, circuit.HostKey(host), ls)
	}
	if err != nil {
		return parked, "", fmt.Errorf("park dead deliveries again: %w", err)
	}
	return parked, next, nil
}

func (r Returner) page(ctx context.Context, key string, ls []DeadLetter) (int, error) {
	known, err := inspect(ctx, r.Ledger, ls)
	if err != nil {
		return 0, err
	}
	now := r.Lot.Now()
	var done, left []DeadLetter
	var spots []parking.Parked
	records := map[activity.ID][]ledger.Recipient{}
	forget := map[activity.ID]time.Time{}
	for i, l := range ls {
		switch k := known[i]; {
		case l.Damaged != nil:
			r.Log.ErrorContext(ctx, "a dead letter is damaged, and stays dead", "server", key, "dead_letter", l.Name().String(), "error", l.Damaged)
			left = append(left, l)
		case !stillDead(k, l):
			done = append(done, l)
		case !l.Revives(now) || k.Record.Cancelled || k.Record.Forgotten || k.Record.ID == "":
			// Without a record nobody knows whether the activity was cancelled.
			left = append(left, l)
		default:
			p, rec := r.again(key, l, now)
			spots, done = append(spots, p), append(done, l)
			id := l.Activity.ID
			records[id] = append(records[id], rec)
			if forget[id] = k.Record.Forget; forget[id].IsZero() {
				forget[id] = l.Forget
			}
		}
	}
	if len(spots) > 0 {
		s, err := circuit.Load(ctx, r.Lot.Servers, key)
		if err != nil {
			return 0, err
		}
		park := func(s circuit.State) circuit.State { return s.Park(r.Lot.Rules, r.Lot.Now()) }
		if _, err := r.Lot.Park(ctx, s, park, spots); err != nil {
			return 0, err
		}
	}
	var errs []error
	for id, rs := range records {
		_, err := r.Ledger.PutRecipients(ctx, id, rs, forget[id])
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return len(spots), err
	}
	if len(left) > 0 {
		errs = append(errs, r.Store.LeaveDead(ctx, left))
	}
	if len(done) > 0 {
		errs = append(errs, r.Store.RemoveDeadLetters(ctx, done))
	}
	return len(spots), errors.Join(errs...)
}

// again is the spot and the record of a dead delivery that is parked again, with all its tries and
// its full time.
func (r Returner) again(key string, l DeadLetter, now time.Time) (parking.Parked, ledger.Recipient) {
	d := l.Delivery
	d.Attempts, d.Unsent, d.Trial, d.Since, d.Slot = 0, 0, false, now, time.Time{}
	d.Generation = max(d.Generation, l.Last.Generation+1)
	p := parking.Parked{
		Key: key, Activity: l.Activity, Delivery: d, Since: now, GiveUp: now.Add(r.GiveUp(l.Activity.Protocol)),
		Group: message.GroupOf(l.Activity, l.Host()), Sequence: l.Activity.Sequence, Attempted: true,
	}
	rec := l.Last
	rec.State, rec.Attempts, rec.Unsent, rec.NextAttemptAt, rec.UpdatedAt = activity.Parked, 0, 0, time.Time{}, now
	rec.Generation, rec.Lot = d.Generation, ledger.LotName(rec.Target.Inbox, key)
	return p, rec
}
