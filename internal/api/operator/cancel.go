package operator

import (
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/client"
	"fedpost/internal/api"
	"fedpost/internal/enqueue"
	"fedpost/internal/ledger"
	"fedpost/internal/protocol"
)

// Bounds of one request that cancels many. A longer list is continued by its cursor.
const (
	cancelStep = 200
	cancelTime = 15 * time.Second // API Gateway waits for 29 s
)

// cancel cancels the activities that match, from the newest back.
func (h findHandler) cancel(r *http.Request) (any, error) {
	in := api.ReadInput(r)
	want := client.ActivitySelection{
		Actor: in.Text("actor"), Type: in.Text("type"), Since: in.Instant("since"), Until: in.Instant("until"), Cursor: in.Text("cursor"),
	}
	oldest := h.now().Add(-ledger.LongestBack)
	switch {
	case want.Actor == "" && want.Type == "" && want.Since.IsZero() && want.Until.IsZero():
		in.Fault("actor", "is missing, as are type, since and until, so all activities would be cancelled; give at least one")
	case !want.Since.IsZero() && want.Since.Before(oldest):
		in.Fault("since", "is too long ago: lists go back for %d days", int(ledger.LongestBack.Hours()/24))
	case len(want.Actor) > longestSought:
		in.Fault("actor", "has %d bytes; the most is %d", len(want.Actor), longestSought)
	case want.Since.IsZero():
		want.Since = oldest
	}
	if err := in.Check(); err != nil {
		return nil, err
	}
	done, err := h.cancelAll(r.Context(), want)
	if errors.Is(err, ledger.ErrBadCursor) {
		in.Fault("cursor", "is not the nextCursor of an earlier answer")
		return nil, in.Check()
	}
	if err != nil {
		return nil, err
	}
	return done, nil
}

// cancelAll cancels until the list ends or cancelTime is over.
func (h findHandler) cancelAll(ctx context.Context, want client.ActivitySelection) (done client.CancelledActivities, err error) {
	begun := h.now()
	s := ledger.Sought{Sender: enqueue.SenderOf(protocol.Name(want.Actor)), Since: want.Since}
	done.NextCursor = want.Cursor
	for {
		ls, next, err := h.FindActivities(ctx, s, done.NextCursor, cancelStep)
		if err != nil {
			return done, err
		}
		var some []ledger.Listed
		for _, l := range ls {
			if (want.Type == "" || l.Type == want.Type) && (want.Until.IsZero() || l.CreatedAt.Before(want.Until)) {
				some = append(some, l)
			}
			done.Reached = l.CreatedAt
		}
		n, err := h.cancelThese(ctx, some)
		if err != nil {
			return done, err
		}
		done.Cancelled, done.Over = done.Cancelled+n, done.Over+len(some)-n
		if done.NextCursor = next; next == "" || h.now().Sub(begun) >= cancelTime {
			return done, nil
		}
	}
}

// cancelThese cancels those of ls that are neither done nor cancelled, and counts them.
func (h findHandler) cancelThese(ctx context.Context, ls []ledger.Listed) (n int, err error) {
	views, err := h.views(ctx, ls)
	if err != nil {
		return 0, err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(viewsAtOnce)
	for i, v := range views {
		if v == nil || v.Status == ledger.StatusDone || v.Status == ledger.StatusCancelled {
			continue
		}
		n++
		g.Go(func() error {
			if err := h.CancelActivity(ctx, ls[i].ID); !errors.Is(err, ledger.ErrNotFound) {
				return err
			}
			return nil
		})
	}
	return n, g.Wait()
}
