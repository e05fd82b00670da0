package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/api/problem"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/enqueue"
	"fedpost/internal/keys"
	"fedpost/internal/ledger"
	"fedpost/internal/protocol/sipher/follow"
)

func (a *API) readActivity(r *http.Request) (enqueue.Request, error) {
	o := readObject(r)
	req := a.readRequest(o)
	req.DeduplicationKey, req.DeduplicationTTL, req.DeduplicateBy = readKey(o, r.Header)
	return req, a.complete(r.Context(), o, req)
}

// mostShown is how many inboxes each list of a check has at most.
const mostShown = 1000

// checkActivity checks a request and previews its inboxes. Nothing is stored or sent.
func (a *API) checkActivity(r *http.Request) (any, error) {
	req, err := a.readActivity(r)
	if err != nil {
		return nil, err
	}
	p, err := a.o.Enqueuer.Check(r.Context(), req)
	switch {
	case len(p.Faults) > 0:
		return nil, enqueueProblem(&enqueue.InvalidError{Faults: p.Faults}, false)
	case err != nil:
		return nil, enqueueProblem(&enqueue.SendError{Err: err}, false)
	}
	c := client.Checked{Recipients: p.Recipients, Inboxes: len(p.Targets), Shared: []client.SharedInbox{}, Refused: []client.RefusedInbox{}}
	for _, t := range p.Targets {
		if t.Stands > 1 && len(c.Shared) < mostShown {
			c.Shared = append(c.Shared, client.SharedInbox{Inbox: t.Inbox, Recipients: t.Stands})
		}
		if a.o.Refuses == nil || len(c.Refused) == mostShown {
			continue
		}
		if err := a.o.Refuses(t.Inbox); err != nil {
			c.Refused = append(c.Refused, client.RefusedInbox{Inbox: t.Inbox, Detail: err.Error()})
		}
	}
	return c, nil
}

func (a *API) postActivity(r *http.Request) (any, error) {
	req, err := a.readActivity(r)
	if err != nil {
		return nil, err
	}
	res, err := a.accept(r.Context(), req)
	return Reply{Status: http.StatusAccepted, Location: "/v1/activities/" + url.PathEscape(string(res.ID)), Body: accepted(res)}, err
}

func (a *API) complete(ctx context.Context, o *Object, req enqueue.Request) error {
	return o.checkWith(func() ([]enqueue.Fault, error) {
		p, err := a.o.Enqueuer.Check(ctx, req)
		return p.Faults, err
	})
}

// accept accepts a request that is complete.
func (a *API) accept(ctx context.Context, req enqueue.Request) (enqueue.Result, error) {
	res, err := a.o.Enqueuer.Enqueue(ctx, req)
	if err != nil {
		return enqueue.Result{}, enqueueProblem(err, req.DeduplicationKey != nil)
	}
	return res, nil
}

func (a *API) postBatch(r *http.Request) (any, error) {
	o := readObject(r)
	var req enqueue.BatchRequest
	req.Requests = list(o, "activities", maxParts, func(at string, value json.RawMessage) enqueue.Request {
		part := o.inner(at, value, "is not an object")
		one := a.readRequest(part)
		one.DeduplicationKey, one.DeduplicationTTL, one.DeduplicateBy = readKey(part, nil)
		part.Done()
		return one
	})
	req.DeduplicationKey, req.DeduplicationTTL, req.DeduplicateBy = readKey(o, r.Header)
	if err := o.checkWith(func() ([]enqueue.Fault, error) { return a.o.Enqueuer.CheckBatch(r.Context(), req) }); err != nil {
		return nil, err
	}
	results, err := a.o.Enqueuer.EnqueueBatch(r.Context(), req)
	if err != nil {
		return nil, enqueueProblem(err, req.DeduplicationKey != nil)
	}
	out := client.AcceptedBatch{Status: string(results[0].Status)}
	for _, res := range results {
		out.Activities = append(out.Activities, accepted(res))
	}
	return Reply{Status: http.StatusAccepted, Body: out}, nil
}

// checkWith is Check, whose answer has also the faults that check finds in the fields that were read.
func (o *Object) checkWith(check func() ([]enqueue.Fault, error)) error {
	if err := o.Check(); err == nil || o.faults.unread != nil {
		return err
	}
	found, err := check()
	if err != nil {
		found = nil // the faults of the request stay, our failure may not
	}
	checking, _ := fields(found)
	return invalid(http.StatusBadRequest, merge(o.faults.list, checking))
}

// fields translates faults, and reports whether all of them are about size.
func fields(found []enqueue.Fault) (all []client.FieldError, tooLarge bool) {
	tooLarge = true
	for _, f := range found {
		all = append(all, client.FieldError{Pointer: f.Pointer, Detail: f.Detail})
		tooLarge = tooLarge && f.TooLarge
	}
	return all, tooLarge
}

// invalid is the problem of a request with faults.
func invalid(status int, faults []client.FieldError) *problem.Problem {
	n := "1 fault"
	if len(faults) != 1 {
		n = fmt.Sprintf("%d faults", len(faults))
	}
	if len(faults) >= enqueue.MaxFaults {
		n = fmt.Sprintf("%d faults or more", enqueue.MaxFaults)
	}
	p := problem.Typed(status, "invalid-request", "Invalid request",
		fmt.Sprintf("The request has %s; nothing was stored. The first: %s %s.", n, faults[0].Pointer, faults[0].Detail))
	for _, f := range faults[:min(len(faults), enqueue.MaxFaults)] {
		p.Errors = append(p.Errors, client.FieldError{Pointer: "#" + f.Pointer, Detail: f.Detail})
	}
	return p
}

func (a *API) getActivity(r *http.Request, id activity.ID) (any, error) {
	q, limit := ReadPage(r, UsualPage, MostPage, "state", "host")
	f := ledger.RecipientFilter{State: Choice(q, "state", activity.States...), Host: q.Host("host")}
	if err := q.Check(); err != nil {
		return nil, err
	}
	view, err := a.o.Activities.View(r.Context(), id, f, q.Get("cursor"), limit)
	if err != nil {
		return nil, RecordProblem(err)
	}
	return statusOf(view), nil
}

func (a *API) cancelActivity(r *http.Request, id activity.ID) (any, error) {
	v, err := a.unfinished(r.Context(), id)
	if err == nil {
		err = a.o.Activities.CancelActivity(r.Context(), id)
	}
	if err == nil {
		v, err = a.unfinished(r.Context(), id) // the last recipient may just have been finished
	}
	if err != nil {
		return nil, RecordProblem(err)
	}
	return client.Cancelled{ID: string(id), Status: string(v.Status), Counts: Counts(v.Counts)}, nil
}

// unfinished returns the view of an activity, or a problem if it is done.
func (a *API) unfinished(ctx context.Context, id activity.ID) (ledger.View, error) {
	v, err := a.o.Activities.View(ctx, id, ledger.RecipientFilter{}, "", 1)
	if err == nil && v.Status == ledger.StatusDone {
		err = problem.Typed(http.StatusConflict, "nothing-to-cancel", "Nothing to cancel",
			"All recipients are finished, so there is nothing to cancel. GET /v1/activities/{id} shows the state of each.")
	}
	return v, err
}

// OfActivity is f for requests with an activity's id in the path.
func OfActivity(f func(*http.Request, activity.ID) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		id, err := activity.ParseID(r.PathValue("id"))
		if err != nil {
			return nil, problem.New(http.StatusNotFound, "There is no such activity: an id has 26 letters and digits.")
		}
		return f(r, id)
	}
}

// badCursors are the errors of lists for a cursor that fedpost did not make.
var badCursors = []error{ledger.ErrBadCursor, keys.ErrBadCursor, deadletter.ErrBadCursor, follow.ErrCursor}

// RecordProblem is err if it is a problem, else the problem of an activity that is not found, of a
// bad cursor, or of a table or queue that has failed.
func RecordProblem(err error) error {
	var p *problem.Problem
	switch {
	case errors.As(err, &p):
		return err
	case errors.Is(err, ledger.ErrNotFound):
		return problem.New(http.StatusNotFound, "There is no such activity, or its records have been dropped after their retention.").Because(err)
	case slices.ContainsFunc(badCursors, func(bad error) bool { return errors.Is(err, bad) }):
		return BadCursor()
	}
	return problem.New(http.StatusServiceUnavailable, "The records cannot be reached. Try again.").Because(err).After(RetryAfter)
}
