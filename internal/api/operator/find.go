package operator

import (
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/api"
	"fedpost/internal/enqueue"
	"fedpost/internal/ledger"
	"fedpost/internal/protocol"
)

// Finder finds, shows and cancels activities.
type Finder interface {
	FindActivities(ctx context.Context, s ledger.Sought, cursor string, limit int) ([]ledger.Listed, string, error)
	// FindBody returns the stored body of an activity, or ledger.ErrNoContent.
	FindBody(ctx context.Context, id activity.ID) (string, error)
	api.Activities
}

// Bounds of a page of activities. For its counts, all chunks of each entry are read.
const (
	pageOfActivities = 20
	mostActivities   = 100
	viewsAtOnce      = 8
	longestSought    = 2048 // bytes of an id
)

// Bounds of the search for activities in a state, which has no index: how many are read for one
// page, and after how long no further step is begun.
const (
	mostLooked = 2000
	lookStep   = 100
	longLook   = 5 * time.Second
)

func (h handlers) listActivities(r *http.Request) (any, error) {
	q, limit := api.ReadPage(r, pageOfActivities, mostActivities, "id", "body", "activityId", "actor", "since", "state")
	s, state, body := h.sought(q), api.Choice(q, "state", states...), q.Flag("body")
	if body && s.ID == "" {
		q.Fault("body", "needs id: a body is shown for one activity only")
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	page, err := h.foundPage(r.Context(), s, state, q.Get("cursor"), limit)
	if err != nil {
		return nil, err
	}
	if body && len(page.Activities) == 1 {
		text, err := h.Activities.FindBody(r.Context(), s.ID)
		if err != nil && !errors.Is(err, ledger.ErrNoContent) && !errors.Is(err, ledger.ErrNoBody) {
			return nil, err
		}
		page.Activities[0].Body = text
	}
	return page, nil
}

// states are the values of the parameter state: a status of activities, or a state of at least one
// recipient.
var states = append([]string{string(ledger.StatusDelivering), string(ledger.StatusDone)}, api.Texts(activity.States)...)

func (h handlers) sought(q *api.Query) ledger.Sought {
	s := ledger.Sought{
		ActivityID: protocol.Name(q.Get("activityId")), Sender: enqueue.SenderOf(protocol.Name(q.Get("actor"))), Since: q.Instant("since"),
	}
	if id := q.Get("id"); id != "" {
		var err error
		if s.ID, err = activity.ParseID(id); err != nil {
			q.Fault("id", "is not an id of fedpost, which has 26 letters and digits; use activityId for the activity's own id")
		}
	}
	for _, name := range []string{"activityId", "actor"} {
		if n := len(q.Get(name)); n > longestSought {
			q.Fault(name, "has %d bytes; the most is %d", n, longestSought)
		}
	}
	if oldest := h.Now().Add(-ledger.LongestBack); !s.Since.IsZero() && s.Since.Before(oldest) {
		q.Fault("since", "is too long ago: lists go back for %d days", int(ledger.LongestBack.Hours()/24))
	}
	return s
}

// foundPage reads until it has limit activities in the state, or reaches a bound.
func (h handlers) foundPage(ctx context.Context, s ledger.Sought, state, cursor string, limit int) (page client.Activities, err error) {
	page.Activities = []client.FoundActivity{}
	begun, step := h.Now(), limit
	if state != "" {
		step = max(limit, lookStep)
	}
	for looked := 0; ; looked += step {
		ls, next, err := h.Activities.FindActivities(ctx, s, cursor, step)
		if err != nil {
			return page, err
		}
		views, err := views(ctx, h.Activities, ls)
		if err != nil {
			return page, err
		}
		for i, l := range ls {
			if v := views[i]; v != nil && (state == "" || string(v.Status) == state || v.Counts[activity.State(state)] > 0) {
				page.Activities = append(page.Activities, client.FoundActivity{
					ID: string(l.ID), ActivityID: l.ActivityID, Actor: l.Actor, Type: l.Type, KeyID: l.KeyID,
					Object: l.Object, Bytes: l.Bytes, CreatedAt: l.CreatedAt, Status: string(v.Status), Counts: api.Counts(v.Counts),
					Metadata: api.Raw(v.Metadata),
				})
			}
			if len(page.Activities) == limit && (i < len(ls)-1 || next != "") {
				page.NextCursor = l.Cursor
				return page, nil
			}
		}
		if page.NextCursor, cursor = next, next; next == "" || looked+step >= mostLooked || h.Now().Sub(begun) >= longLook {
			return page, nil
		}
	}
}

// views reads the listed activities; those without a record are nil.
func views(ctx context.Context, f Finder, ls []ledger.Listed) ([]*ledger.View, error) {
	views := make([]*ledger.View, len(ls))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(viewsAtOnce)
	for i, l := range ls {
		g.Go(func() error {
			v, err := f.View(ctx, l.ID, ledger.RecipientFilter{}, "", 1)
			if errors.Is(err, ledger.ErrNotFound) {
				return nil
			}
			views[i] = &v
			return err
		})
	}
	return views, g.Wait()
}

// Bounds of one request that cancels many. A longer list is continued by its cursor.
const (
	cancelStep = 200
	cancelTime = 15 * time.Second // API Gateway waits for 29 s
)

// cancelActivities cancels the activities that match, from the newest back.
func (h handlers) cancelActivities(r *http.Request) (any, error) {
	in := api.ReadInput(r)
	want := client.ActivitySelection{
		Actor: in.Text("actor"), Type: in.Text("type"), Since: in.Instant("since"), Until: in.Instant("until"), Cursor: in.Text("cursor"),
	}
	oldest := h.Now().Add(-ledger.LongestBack)
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
func (h handlers) cancelAll(ctx context.Context, want client.ActivitySelection) (done client.CancelledActivities, err error) {
	begun := h.Now()
	s := ledger.Sought{Sender: enqueue.SenderOf(protocol.Name(want.Actor)), Since: want.Since}
	done.NextCursor = want.Cursor
	for {
		ls, next, err := h.Activities.FindActivities(ctx, s, done.NextCursor, cancelStep)
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
		if done.NextCursor = next; next == "" || h.Now().Sub(begun) >= cancelTime {
			return done, nil
		}
	}
}

// cancelThese cancels those of ls that are neither done nor cancelled, and counts them.
func (h handlers) cancelThese(ctx context.Context, ls []ledger.Listed) (n int, err error) {
	views, err := views(ctx, h.Activities, ls)
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
			if err := h.Activities.CancelActivity(ctx, ls[i].ID); !errors.Is(err, ledger.ErrNotFound) {
				return err
			}
			return nil
		})
	}
	return n, g.Wait()
}
