package api

import (
	"encoding/json"
	"strconv"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/api/contract"
	"fedpost/internal/enqueue"
	"fedpost/internal/ledger"
	"fedpost/internal/protocol"
)

// readSubmission takes an activity's fields from o, but for those of
// deduplication, which belong to the call.
func (a *API) readSubmission(o *object) contract.Submission {
	s := contract.Submission{
		Protocol: o.named("protocol"),
		KeyID:    o.named("keyId"),

		AllowKeyOfOther: o.flag("allowKeyOfOther", false),

		Headers:        readHeaders(o),
		Job:            o.named("job"),
		ServerURL:      o.named("serverUrl"),
		OrderingKey:    o.named("orderingKey"),
		Delay:          contract.Duration(o.duration("delay", 0)),
		Priority:       o.named("priority"),
		ExpiresIn:      contract.Duration(o.duration("expiresIn", time.Millisecond)),
		Coalesce:       o.named("coalesce"),
		CoalesceCreate: o.flag("coalesceCreate", false),
		Notify:         o.flag("notify", false),
		Recipients:     readRecipients(o),
	}
	shared := o.flag("preferSharedInbox", true)
	s.PreferSharedInbox = &shared
	// Each protocol has its own field for the content to deliver. The field of another
	// protocol is not taken, so it is reported as unknown.
	p, known := a.o.Protocols.Of(activity.Protocol(s.Protocol))
	if known && p.Intake.Body == protocol.None {
		o.fault("protocol", "is not for requests of others; it is one of %q", a.o.Protocols.Offered())
	}
	if p.Intake.Body == protocol.Text {
		s.Payload = o.textOr(string(protocol.Text))
	} else if raw, ok := o.take(string(protocol.JSON)); ok {
		s.Activity = raw
	}
	return s
}

// enqueueRequest is a submission as package enqueue takes it, without its deduplication
// key.
func enqueueRequest(s contract.Submission) enqueue.Request {
	req := enqueue.Request{
		Protocol: activity.Protocol(s.Protocol), KeyID: s.KeyID, AllowKeyOfOther: s.AllowKeyOfOther, Headers: headers(s.Headers), Job: s.Job, ServerURL: s.ServerURL,
		OrderingKey: s.OrderingKey, Delay: time.Duration(s.Delay), Priority: activity.Priority(s.Priority),
		ExpiresIn: time.Duration(s.ExpiresIn), EveryInbox: !*s.PreferSharedInbox,
		Coalesce: activity.Coalesce(s.Coalesce), CoalesceCreate: s.CoalesceCreate, Notify: s.Notify,
		Recipients: make([]enqueue.Recipient, len(s.Recipients)),
	}
	for i, r := range s.Recipients {
		req.Recipients[i] = enqueue.Recipient{Inbox: r.Inbox, SharedInbox: r.SharedInbox, Headers: headers(r.Headers)}
	}
	// These very bytes go on the wire: they are not decoded and encoded again.
	if body := string(s.Activity) + s.Payload; body != "" {
		req.Body = &body
	}
	return req
}

func readRecipients(o *object) (all []contract.Recipient) {
	o.each("recipients", func(i int, value json.RawMessage) bool {
		if i == maxListed {
			o.fault("recipients", "has more than %d entries", maxListed)
			all = nil // further faults of the recipients do not matter
			return false
		}
		at := o.at + "/recipients/" + strconv.Itoa(i)
		r, ok := readRecipient(at, value, o.faults)
		if !ok {
			o.faults.add(at, `is neither an inbox URL nor an object {"inbox", "sharedInbox", "headers"}`)
		}
		all = append(all, r)
		return !o.faults.full()
	})
	return all
}

func readRecipient(at string, raw json.RawMessage, faults *faults) (r contract.Recipient, ok bool) {
	if inbox, fault := text(raw); fault == "" {
		return contract.Recipient{Inbox: inbox}, true
	}
	o, ok := newObject(at, raw, faults)
	if !ok {
		return r, false
	}
	r = contract.Recipient{Inbox: o.textOr("inbox"), SharedInbox: o.named("sharedInbox"), Headers: readHeaders(o)}
	o.done()
	return r, true
}

// mostHeaders is how many headers are read of a list. Package enqueue allows fewer.
const mostHeaders = 20

func readHeaders(o *object) (all []contract.Header) {
	o.each("headers", func(i int, value json.RawMessage) bool {
		if i == mostHeaders {
			o.fault("headers", "has more than %d entries", mostHeaders)
			all = nil
			return false
		}
		at := o.at + "/headers/" + strconv.Itoa(i)
		h, ok := newObject(at, value, o.faults)
		if !ok {
			o.faults.add(at, `is not an object {"name", "value", "sign"}`)
			return !o.faults.full()
		}
		all = append(all, contract.Header{Name: h.textOr("name"), Value: h.textOr("value"), Sign: h.flag("sign", false)})
		h.done()
		return !o.faults.full()
	})
	return all
}

func headers(hs []contract.Header) (all []activity.Header) {
	for _, h := range hs {
		all = append(all, activity.Header(h))
	}
	return all
}

// accepted is the answer to a submission.
func accepted(r enqueue.Result) contract.Accepted {
	return contract.Accepted{ID: string(r.ID), Status: string(r.Status), Recipients: r.Recipients}
}

// statusOf is the status of an activity as callers see it.
func statusOf(v ledger.View) contract.Status {
	s := contract.Status{
		ID: string(v.ID), Status: string(v.Status), Counts: Counts(v),
		Recipients: make([]contract.RecipientStatus, len(v.Recipients)), NextCursor: v.NextCursor,
	}
	for i, r := range v.Recipients {
		s.Recipients[i] = contract.RecipientStatus{
			Inbox: r.Inbox, State: string(r.State), Recipients: r.Recipients, Attempts: r.Attempts,
			LastStatus: r.LastStatus, LastError: r.LastError, Response: r.Response, Note: r.Note,
			WaitsFor: r.WaitsFor, NextAttemptAt: r.NextAttemptAt, UpdatedAt: r.UpdatedAt, By: string(r.By),
		}
		for _, t := range r.Tries {
			s.Recipients[i].LastAttempts = append(s.Recipients[i].LastAttempts, contract.Attempt{
				At: t.At, Status: t.Status, Error: t.Error, Form: t.Form, MS: t.Took.Milliseconds(),
			})
		}
	}
	return s
}

// Counts is how many recipients are in each state.
func Counts(v ledger.View) map[string]int {
	all := make(map[string]int, len(v.Counts))
	for state, n := range v.Counts {
		all[string(state)] = n
	}
	return all
}
