package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/api/problem"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/outbox"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
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

// AcceptRow does for a row of the outbox what POST /v1/activities does for a request. A row that
// is read again after a crash is a duplicate: it has a deduplication key made from its id, if
// it has no other, and the key's window is enqueue.MaxTTL unless the request has one. An error
// is a *problem.Problem.
func (a *API) AcceptRow(ctx context.Context, row outbox.Row) (res enqueue.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			a.o.Log.ErrorContext(ctx, "panic while accepting a row of the outbox", "row", row.ID, "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", v)
		}
		if err != nil {
			err = problem.Of(err)
		}
	}()
	o := parse([]byte(row.Request), nil)
	req := a.readRequest(o)
	req.DeduplicationKey, req.DeduplicationTTL, req.DeduplicateBy = readKey(o, http.Header{})
	switch {
	case row.Key != nil && req.DeduplicationKey != nil && *row.Key != *req.DeduplicationKey:
		o.Fault("deduplicationKey", "differs from the row's deduplication_key; give one of them, or the same")
	case row.Key != nil:
		req.DeduplicationKey = row.Key
	case req.DeduplicationKey == nil:
		// With the time, as the ids of a truncated table may begin anew.
		key := "outbox/" + strconv.FormatInt(row.ID, 10) + "/" + strconv.FormatInt(row.Created.UnixMicro(), 10)
		req.DeduplicationKey = &key
	}
	req.DeduplicationTTL = cmp.Or(req.DeduplicationTTL, enqueue.MaxTTL)
	if err := a.complete(ctx, o, req); err != nil {
		return res, err
	}
	return a.accept(ctx, req)
}

// RetryAfter is the Retry-After of a 503 after a failure of the table or a queue.
const RetryAfter = 5 * time.Second

func enqueueProblem(err error, keyed bool) error {
	if invalidErr, ok := errors.AsType[*enqueue.InvalidError](err); ok {
		all, tooLarge := fields(invalidErr.Faults)
		if tooLarge {
			return invalid(http.StatusRequestEntityTooLarge, all)
		}
		return invalid(http.StatusBadRequest, all)
	}
	if held, ok := errors.AsType[*dedup.HeldError](err); ok {
		p := problem.Typed(http.StatusConflict, "in-progress", "In progress",
			"Another request with this deduplication key is in progress, or ended without an answer. Try again after the time in Retry-After.")
		p.ID = string(held.ID)
		return p.After(held.RetryAfter)
	}
	if mismatch, ok := errors.AsType[*dedup.MismatchError](err); ok {
		p := problem.Typed(http.StatusUnprocessableEntity, "key-reused", "Deduplication key reused",
			"This deduplication key was used for a different request. Use a new key for a new request.")
		p.ID = string(mismatch.ID)
		return p
	}
	if errors.Is(err, dedup.ErrUnavailable) {
		return problem.Typed(http.StatusServiceUnavailable, "deduplication-unavailable", "Deduplication unavailable",
			"The deduplication key cannot be checked at the moment, and the setting DEDUPLICATION_FALLBACK=closed refuses such requests. Nothing was queued. Try again.").
			Because(err).After(RetryAfter)
	}
	var send *enqueue.SendError
	if errors.As(err, &send) && send.MaybeSent {
		advice := "Try again with the same deduplication key: it will not be queued twice."
		if !keyed {
			advice = "Without a deduplication key, trying again may deliver it twice."
		}
		return problem.Typed(http.StatusServiceUnavailable, "unknown-outcome", "Outcome unknown",
			fmt.Sprintf("The activity may or may not have been queued. %s", advice)).Because(err).After(RetryAfter)
	}
	if send != nil {
		return problem.Typed(http.StatusServiceUnavailable, "not-queued", "Not queued",
			"The activity was not queued. Try again.").Because(err).After(RetryAfter)
	}
	return err
}
