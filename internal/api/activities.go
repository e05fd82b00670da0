package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/api/problem"
	"fedpost/internal/enqueue"
	"fedpost/internal/ledger"
)

// accepted is the answer to an activity that was accepted now or before.
type accepted struct {
	ID         activity.ID    `json:"id"`
	Status     enqueue.Status `json:"status"`
	Recipients int            `json:"recipients"`
}

// acceptedBatch is the answer to a batch.
type acceptedBatch struct {
	Status     enqueue.Status `json:"status"`
	Activities []accepted     `json:"activities"`
}

func (a *API) postActivity(w http.ResponseWriter, r *http.Request) error {
	o, err := readObject(r)
	if err != nil {
		return err
	}
	req := readRequest(o)
	req.DeduplicationKey, req.DeduplicationTTL = readKey(o, r.Header)
	o.done()
	if len(*o.faults) > 0 {
		return a.refuse(*o.faults, func() ([]enqueue.Fault, error) { return a.o.Enqueuer.Check(r.Context(), req) })
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
	for i, raw := range o.list("activities") {
		at := fmt.Sprintf("/activities/%d", i)
		part, ok := newObject(at, raw, o.faults)
		if !ok {
			*o.faults = append(*o.faults, problem.Field{Pointer: at, Detail: "is not an object"})
			// Keep the others at their places.
			req.Requests = append(req.Requests, enqueue.Request{Protocol: activity.ActivityPub})
			continue
		}
		one := readRequest(part)
		one.DeduplicationKey = part.text("deduplicationKey")
		one.DeduplicationTTL = part.duration("deduplicationTtl", time.Second)
		part.done()
		req.Requests = append(req.Requests, one)
	}
	req.DeduplicationKey, req.DeduplicationTTL = readKey(o, r.Header)
	o.done()
	if len(*o.faults) > 0 {
		return a.refuse(*o.faults, func() ([]enqueue.Fault, error) { return a.o.Enqueuer.CheckBatch(r.Context(), req) })
	}
	results, err := a.o.Enqueuer.EnqueueBatch(r.Context(), req)
	if err != nil {
		return enqueueProblem(err, req.DeduplicationKey != nil)
	}
	out := acceptedBatch{Status: results[0].Status}
	for _, res := range results {
		out.Activities = append(out.Activities, accepted(res))
	}
	return answer(w, r, http.StatusAccepted, out)
}

// readRequest takes an activity's fields from o, but for those of
// deduplication, which belong to the call.
func readRequest(o *object) enqueue.Request {
	req := enqueue.Request{
		Protocol:       activity.Protocol(o.named("protocol")),
		KeyID:          o.named("keyId"),
		Job:            o.named("job"),
		ServerURL:      o.named("serverUrl"),
		OrderingKey:    o.named("orderingKey"),
		Delay:          o.duration("delay", 0),
		Priority:       activity.Priority(o.named("priority")),
		ExpiresIn:      o.duration("expiresIn", time.Millisecond),
		EveryInbox:     !o.flag("preferSharedInbox", true),
		Coalesce:       activity.Coalesce(o.named("coalesce")),
		CoalesceCreate: o.flag("coalesceCreate", false),
		Recipients:     readRecipients(o),
	}
	if req.Protocol == "" {
		req.Protocol = activity.ActivityPub
	}
	// Each protocol has its own field for what is delivered; the other's is left
	// in place, and so reported as unknown.
	if req.Protocol == activity.Sipher {
		req.Body = o.text("payload")
	} else if raw, ok := o.take("activity"); ok {
		// These very bytes go on the wire: they are not decoded and encoded again.
		body := string(raw)
		req.Body = &body
	}
	return req
}

func readRecipients(o *object) []enqueue.Recipient {
	list := o.list("recipients")
	all := make([]enqueue.Recipient, 0, len(list))
	for i, raw := range list {
		at := o.at + "/recipients/" + strconv.Itoa(i)
		r, ok := readRecipient(at, raw, o.faults)
		if !ok {
			*o.faults = append(*o.faults, problem.Field{Pointer: at, Detail: `is neither an inbox URL nor an object {"inbox", "sharedInbox"}`})
		}
		all = append(all, r)
		if len(*o.faults) > enqueue.MaxFaults {
			break
		}
	}
	return all
}

func readRecipient(at string, raw json.RawMessage, faults *[]problem.Field) (r enqueue.Recipient, ok bool) {
	if inbox, fault := text(raw); fault == "" {
		return enqueue.Recipient{Inbox: inbox}, true
	}
	o, ok := newObject(at, raw, faults)
	if !ok {
		return r, false
	}
	r = enqueue.Recipient{Inbox: o.textOr("inbox"), SharedInbox: o.named("sharedInbox")}
	o.done()
	return r, true
}

// refuse answers a request that could not be read whole: with the faults found
// so far and with those that checking the rest brings up.
func (a *API) refuse(reading []problem.Field, check func() ([]enqueue.Fault, error)) error {
	found, err := check()
	if err != nil {
		// The caller's faults are certain; ours may be over at the next try.
		found = nil
	}
	checking, _ := fields(found)
	return invalid(http.StatusBadRequest, merge(reading, checking))
}

// fields translates faults, and reports whether all of them are about size.
func fields(found []enqueue.Fault) (all []problem.Field, tooLarge bool) {
	tooLarge = true
	for _, f := range found {
		all = append(all, problem.Field{Pointer: f.Pointer, Detail: f.Detail})
		tooLarge = tooLarge && f.TooLarge
	}
	return all, tooLarge
}

// invalid is the problem of a request with faults.
func invalid(status int, faults []problem.Field) *problem.Problem {
	n := "1 fault"
	if len(faults) != 1 {
		n = fmt.Sprintf("%d faults", len(faults))
	}
	p := problem.Typed(status, "invalid-request", "Invalid request",
		fmt.Sprintf("The request has %s; nothing was stored. The first: %s %s.", n, faults[0].Pointer, faults[0].Detail))
	for _, f := range faults[:min(len(faults), enqueue.MaxFaults)] {
		p.Errors = append(p.Errors, problem.Field{Pointer: "#" + f.Pointer, Detail: f.Detail})
	}
	return p
}

func (a *API) getActivity(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	q, err := ReadQuery(r, "cursor", "limit")
	if err != nil {
		return err
	}
	limit, err := PageSize(q)
	if err != nil {
		return err
	}
	view, err := a.o.Activities.View(r.Context(), id, q.Get("cursor"), limit)
	if errors.Is(err, ledger.ErrBadCursor) {
		return BadCursor()
	}
	if err != nil {
		return activityProblem(err)
	}
	return answer(w, r, http.StatusOK, view)
}

// cancelled is the answer to a cancellation.
type cancelled struct {
	ID     activity.ID `json:"id"`
	Status string      `json:"status"`
}

func (a *API) cancelActivity(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	if err := a.o.Activities.CancelActivity(r.Context(), id); err != nil {
		return activityProblem(err)
	}
	return answer(w, r, http.StatusOK, cancelled{ID: id, Status: "cancelled"})
}

func pathID(r *http.Request) (activity.ID, error) {
	id, err := activity.ParseID(r.PathValue("id"))
	if err != nil {
		return "", problem.New(http.StatusNotFound, "There is no such activity: an id has 26 letters and digits.")
	}
	return id, nil
}

func activityProblem(err error) error {
	if errors.Is(err, ledger.ErrNotFound) {
		return problem.New(http.StatusNotFound, "There is no such activity, or its records have been dropped after their retention.").Because(err)
	}
	return problem.New(http.StatusServiceUnavailable, "The records cannot be reached. Try again.").Because(err).After(retryAfter)
}
