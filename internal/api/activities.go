package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"fedpost/internal/activity"
	"fedpost/internal/api/contract"
	"fedpost/internal/enqueue"
	"fedpost/internal/ledger"
)

func (a *API) postActivity(w http.ResponseWriter, r *http.Request) error {
	o, err := readObject(r)
	if err != nil {
		return err
	}
	s := a.readSubmission(o)
	key, ttl := readKey(o, r.Header)
	o.done()
	req := enqueueRequest(s)
	req.DeduplicationKey, req.DeduplicationTTL = key, ttl
	if !o.faults.none() {
		return a.refuse(o.faults.list, func() ([]enqueue.Fault, error) { return a.o.Enqueuer.Check(r.Context(), req) })
	}
	res, err := a.o.Enqueuer.Enqueue(r.Context(), req)
	if err != nil {
		return enqueueProblem(err, req.DeduplicationKey != nil)
	}
	w.Header().Set("Location", "/v1/activities/"+url.PathEscape(string(res.ID)))
	return answer(w, r, http.StatusAccepted, accepted(res))
}

func (a *API) postBatch(w http.ResponseWriter, r *http.Request) error {
	o, err := readObject(r)
	if err != nil {
		return err
	}
	var req enqueue.BatchRequest
	o.each("activities", func(i int, value json.RawMessage) bool {
		if i == maxParts {
			o.fault("activities", "has more than %d entries", maxParts)
			req.Requests = nil // further faults of these requests do not matter
			return false
		}
		at := fmt.Sprintf("/activities/%d", i)
		part, ok := newObject(at, value, o.faults)
		if !ok {
			o.faults.add(at, "is not an object")
			// The other requests keep their places in the list.
			req.Requests = append(req.Requests, enqueue.Request{})
			return !o.faults.full()
		}
		one := enqueueRequest(a.readSubmission(part))
		one.DeduplicationKey, one.DeduplicationTTL = readKey(part, nil)
		part.done()
		req.Requests = append(req.Requests, one)
		return !o.faults.full()
	})
	req.DeduplicationKey, req.DeduplicationTTL = readKey(o, r.Header)
	o.done()
	if !o.faults.none() {
		return a.refuse(o.faults.list, func() ([]enqueue.Fault, error) { return a.o.Enqueuer.CheckBatch(r.Context(), req) })
	}
	results, err := a.o.Enqueuer.EnqueueBatch(r.Context(), req)
	if err != nil {
		return enqueueProblem(err, req.DeduplicationKey != nil)
	}
	out := contract.AcceptedBatch{Status: string(results[0].Status)}
	for _, res := range results {
		out.Activities = append(out.Activities, accepted(res))
	}
	return answer(w, r, http.StatusAccepted, out)
}

// refuse answers a request that could not be read completely, with the faults of reading
// and the faults of checking the fields that were read.
func (a *API) refuse(reading []contract.FieldError, check func() ([]enqueue.Fault, error)) error {
	found, err := check()
	if err != nil {
		// The answer lists the faults of the request, because they are certain. A failure
		// on our side may be over at the next call.
		found = nil
	}
	checking, _ := fields(found)
	return invalid(http.StatusBadRequest, merge(reading, checking))
}

// fields translates faults, and reports whether all of them are about size.
func fields(found []enqueue.Fault) (all []contract.FieldError, tooLarge bool) {
	tooLarge = true
	for _, f := range found {
		all = append(all, contract.FieldError{Pointer: f.Pointer, Detail: f.Detail})
		tooLarge = tooLarge && f.TooLarge
	}
	return all, tooLarge
}

// invalid is the problem of a request with faults.
func invalid(status int, faults []contract.FieldError) *contract.Problem {
	n := "1 fault"
	if len(faults) != 1 {
		n = fmt.Sprintf("%d faults", len(faults))
	}
	if len(faults) >= enqueue.MaxFaults {
		n = fmt.Sprintf("%d faults or more", enqueue.MaxFaults)
	}
	p := contract.TypedProblem(status, "invalid-request", "Invalid request",
		fmt.Sprintf("The request has %s; nothing was stored. The first: %s %s.", n, faults[0].Pointer, faults[0].Detail))
	for _, f := range faults[:min(len(faults), enqueue.MaxFaults)] {
		p.Errors = append(p.Errors, contract.FieldError{Pointer: "#" + f.Pointer, Detail: f.Detail})
	}
	return p
}

func (a *API) getActivity(w http.ResponseWriter, r *http.Request) error {
	id, err := PathID(r)
	if err != nil {
		return err
	}
	q, err := ReadQuery(r, "state", "host", "cursor", "limit")
	if err != nil {
		return err
	}
	limit, err := PageSize(q)
	if err != nil {
		return err
	}
	var f ledger.RecipientFilter
	if f.State, err = Choice(q, "state", activity.States...); err != nil {
		return err
	}
	if f.Host, err = Host(q, "host"); err != nil {
		return err
	}
	view, err := a.o.Activities.View(r.Context(), id, f, q.Get("cursor"), limit)
	if errors.Is(err, ledger.ErrBadCursor) {
		return BadCursor()
	}
	if err != nil {
		return activityProblem(err)
	}
	return answer(w, r, http.StatusOK, statusOf(view))
}

func (a *API) cancelActivity(w http.ResponseWriter, r *http.Request) error {
	id, err := PathID(r)
	if err != nil {
		return err
	}
	v, err := a.o.Activities.View(r.Context(), id, ledger.RecipientFilter{}, "", 1)
	if err != nil {
		return activityProblem(err)
	}
	if v.Status == ledger.StatusDone {
		return nothingLeft()
	}
	if err := a.o.Activities.CancelActivity(r.Context(), id); err != nil {
		return activityProblem(err)
	}
	if v, err = a.o.Activities.View(r.Context(), id, ledger.RecipientFilter{}, "", 1); err != nil {
		return activityProblem(err)
	}
	if v.Status == ledger.StatusDone {
		return nothingLeft() // the last recipient has come to its end meanwhile
	}
	return answer(w, r, http.StatusOK, contract.Cancelled{ID: string(id), Status: string(v.Status), Counts: Counts(v)})
}

// nothingLeft is the problem of a cancellation that came too late for every recipient.
func nothingLeft() error {
	return contract.TypedProblem(http.StatusConflict, "nothing-to-cancel", "Nothing to cancel",
		"Every recipient has come to its end already, so there is nothing left to cancel. GET /v1/activities/{id} shows what became of each.")
}

// PathID reads the id of an activity from the path.
func PathID(r *http.Request) (activity.ID, error) {
	id, err := activity.ParseID(r.PathValue("id"))
	if err != nil {
		return "", contract.NewProblem(http.StatusNotFound, "There is no such activity: an id has 26 letters and digits.")
	}
	return id, nil
}

func activityProblem(err error) error {
	if errors.Is(err, ledger.ErrNotFound) {
		return NoActivity(err)
	}
	return contract.NewProblem(http.StatusServiceUnavailable, "The records cannot be reached. Try again.").Because(err).After(retryAfter)
}

// NoActivity is the problem of an id that no activity has.
func NoActivity(err error) error {
	return contract.NewProblem(http.StatusNotFound, "There is no such activity, or its records have been dropped after their retention.").Because(err)
}
