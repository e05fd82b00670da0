package operator

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/api"
	"fedpost/internal/api/operator/registry"
	"fedpost/internal/api/problem"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/circuit"
)

// shown is a dead letter as callers see it.
func shown(l deadletter.DeadLetter) client.DeadLetter {
	d := client.DeadLetter{
		ID: l.Name().String(), Activity: string(l.Activity.ID), Protocol: string(l.Activity.Protocol), Type: l.Activity.Type, Job: l.Activity.Job,
		Host: l.Host(), Reason: l.Reason, Attempts: l.Last.Attempts,
		LastStatus: l.Last.LastStatus, LastError: outcome.Text(l.Last.LastError), Response: outcome.Text(l.Last.Response), DiedAt: l.Died,
		Metadata: api.Raw(l.Activity.Metadata),
	}
	d.Inbox, d.CanonicalInbox = api.Inbox(l.Last.Target.Inbox, l.Last.Target.Written)
	if n := l.Last.Target.Stands; n > 1 {
		d.Recipients = n
	}
	if l.Damaged != nil {
		d.Reason, d.LastError = "damaged", outcome.Text("the dead letter is damaged and cannot be retried: "+l.Damaged.Error())
	}
	return d
}

// mostDeadLetters is the longest page of dead letters. Each is read with its activity.
const mostDeadLetters = 200

func (h handlers) listDead(r *http.Request) (any, error) {
	q, limit := api.ReadPage(r, api.UsualPage, mostDeadLetters, "id", "host", "activity", "type", "since")
	_, f := selection(q)
	if err := q.Check(); err != nil {
		return nil, err
	}
	ls, next, err := h.DeadLetters.DeadLetters(r.Context(), f, q.Get("cursor"), limit)
	return client.DeadLetters{DeadLetters: api.Each(ls, shown), NextCursor: next}, err
}

func selection(q *api.Query) (client.Selection, deadletter.Filter) {
	s := client.Selection{ID: q.Get("id"), Host: q.Get("host"), Activity: q.Get("activity"), Type: q.Get("type"), Since: q.Instant("since")}
	return s, filter(s, q.Fault)
}

// filter is the filter of a selection. It calls fault for each of the selection's faults.
func filter(s client.Selection, fault func(name, format string, args ...any)) deadletter.Filter {
	f := deadletter.Filter{Type: s.Type, Since: s.Since}
	if s.Activity != "" {
		id, err := activity.ParseID(s.Activity)
		if err != nil {
			fault("activity", "is not the id of an activity, which has 26 letters and digits")
		}
		f.Activity = id
	}
	if s.ID != "" {
		name, err := deadletter.ParseName(s.ID)
		if err != nil {
			fault("id", "is not the id of a dead letter as GET /v1/dead-letters shows it")
		}
		f.Name = name
	}
	if s.Host != "" {
		n, err := registry.ParseName(s.Host)
		if err != nil {
			fault("host", "is not a host name, with a port if it is not 443")
		}
		if _, many := circuit.FamilyOf(n.Key); many {
			fault("host", "is of a host with its subdomains; name one host")
		}
		if f.Host = activity.HostOf(n.URL); f.Host == "" {
			f.Host, _ = circuit.HostOf(n.Key)
		}
	}
	return f
}

// Bounds of a retry.
const (
	retryDefault = 1000
	retryMost    = 10_000
	// retryStep is how many dead letters are in memory at a time.
	retryStep = 100
	// retryTime is how long a retry may take, as its caller waits. Then it stops, and the answer
	// says that there are more.
	retryTime = 15 * time.Second
)

func (h handlers) retryDead(r *http.Request) (any, error) {
	in := api.ReadInput(r)
	s := client.Selection{ID: in.Text("id"), Host: in.Text("host"), Activity: in.Text("activity"), Type: in.Text("type"), Since: in.Instant("since")}
	limit := in.Number("limit", retryMost)
	failed, cursor := in.Flag("failed", false), in.Text("cursor")
	f := filter(s, in.Fault)
	if failed && s.ID != "" {
		in.Fault("failed", "does not go with id: a failed recipient has no dead letter")
	}
	if cursor != "" && !failed {
		in.Fault("cursor", "goes with failed only: a retry of dead letters continues without a cursor")
	}
	if s == (client.Selection{}) && in.Sound() {
		in.Fault("since", "is missing; say what to retry by id, host, activity, type or since")
	}
	err := in.Check()
	if err != nil {
		return nil, err
	}
	limit = cmp.Or(limit, retryDefault)
	var done client.Retried
	done.Retried, done.More, err = h.inTime(limit, func(cursor string, most int) (int, string, error) {
		return h.Failed.Retrier.Reviver.Revive(r.Context(), f, cursor, most)
	})
	if left := limit - done.Retried; err == nil && failed && !done.More && left > 0 {
		var n int
		n, done.NextCursor, err = h.Failed.RetryFailed(r.Context(), f, cursor, left, h.Now().Add(retryTime))
		done.Retried, done.More = done.Retried+n, done.NextCursor != ""
	} else if failed && err == nil {
		done.NextCursor, done.More = cursor, true
	}
	if errors.Is(err, deadletter.ErrBadCursor) {
		in.Fault("cursor", "is not the nextCursor of an answer to such a request")
		return nil, in.Check()
	}
	if err != nil {
		return nil, problem.New(http.StatusServiceUnavailable,
			fmt.Sprintf("Not all could be retried; %d were. Try again: none is sent twice.", done.Retried)).Because(err).After(api.RetryAfter)
	}
	return api.Reply{Status: http.StatusAccepted, Body: done}, nil
}

// inTime handles up to limit dead letters, by pages, until retryTime is over. more reports whether
// some are left.
func (h handlers) inTime(limit int, page func(cursor string, most int) (n int, next string, err error)) (done int, more bool, err error) {
	end := h.Now().Add(retryTime)
	for cursor := ""; ; {
		n, next, err := page(cursor, min(retryStep, limit-done))
		done += n
		if err != nil {
			return done, more, err
		}
		cursor, more = next, next != ""
		if !more || done >= limit || !h.Now().Before(end) {
			return done, more, nil
		}
	}
}

// dropDead removes dead letters. Their recipients stay dead and cannot be retried any more.
func (h handlers) dropDead(r *http.Request) (any, error) {
	q := api.ReadQuery(r, "id", "host", "activity", "type", "since", "limit")
	limit := q.Number("limit", retryDefault, 1, retryMost)
	s, f := selection(q)
	if s == (client.Selection{}) {
		q.Fault("since", "is missing; say what to drop by id, host, activity, type or since")
	}
	err := q.Check()
	if err != nil {
		return nil, err
	}
	var done client.Dropped
	done.Dropped, done.More, err = h.inTime(limit, func(cursor string, most int) (int, string, error) {
		// Current hides what was revived: that is dropped, too.
		ls, next, err := h.DeadLetters.Store.DeadLetters(r.Context(), f, cursor, most)
		if err == nil {
			err = h.DeadLetters.RemoveDeadLetters(r.Context(), ls)
		}
		if err != nil {
			return 0, "", err
		}
		return len(ls), next, nil
	})
	if err != nil {
		return nil, problem.New(http.StatusServiceUnavailable,
			fmt.Sprintf("Not all could be dropped; %d were. Try again.", done.Dropped)).Because(err).After(api.RetryAfter)
	}
	return done, nil
}

func (h handlers) forgetActivity(r *http.Request, id activity.ID) (any, error) {
	return nil, h.Forgetter.Forget(r.Context(), id)
}

const mostInboxes = 1000

func (h handlers) retryActivity(r *http.Request, id activity.ID) (any, error) {
	in := api.ReadInput(r)
	choice, cursor := chosen(in), in.Text("cursor")
	if err := in.Check(); err != nil {
		return nil, err
	}
	done, err := h.Failed.Retrier.Retry(r.Context(), id, choice, cursor, h.Now().Add(retryTime))
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return nil, err
	case errors.Is(err, deadletter.ErrBadCursor):
		in.Fault("cursor", "is not the nextCursor of an earlier answer")
		return nil, in.Check()
	case errors.Is(err, deadletter.ErrCancelled):
		return nil, over("The activity was cancelled, so its recipients cannot be retried. Send it again.", err)
	case errors.Is(err, deadletter.ErrExpired):
		return nil, over("The activity has expired (expiresIn), so its recipients cannot be retried. Send it again.", err)
	case err != nil:
		return nil, problem.New(http.StatusServiceUnavailable,
			"Not all could be retried. Try again: no recipient is retried twice.").Because(err).After(api.RetryAfter)
	}
	return api.Reply{Status: http.StatusAccepted, Body: client.RetriedActivity{
		ID: string(id), Retried: done.Sent, Unavailable: done.Unavailable, NextCursor: done.Next,
	}}, nil
}

func over(detail string, err error) error {
	return problem.Typed(http.StatusConflict, "activity-over", "Activity over", detail).Because(err)
}

// chosen reads which recipients to retry.
func chosen(in *api.Object) deadletter.Choice {
	var c deadletter.Choice
	states := in.Texts("states", 2)
	for i, s := range states {
		switch activity.State(s) {
		case activity.Failed:
			c.Failed = true
		case activity.Dead:
			c.Dead = true
		default:
			in.FaultAt("states", i, "is %q; it is one of failed and dead", s)
		}
	}
	if states == nil {
		c.Failed, c.Dead = true, true
	}
	inboxes := in.Texts("inboxes", mostInboxes)
	if inboxes == nil {
		return c
	}
	c.Inboxes = make(map[string]bool, len(inboxes))
	for i, inbox := range inboxes {
		one, err := activity.CanonicalURL(inbox)
		if err != nil {
			in.FaultAt("inboxes", i, "%v", err)
		}
		c.Inboxes[one] = true
	}
	return c
}
