package api

import (
	"bytes"
	"encoding/json"
	"time"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/enqueue"
	"fedpost/internal/ledger"
	"fedpost/internal/protocol"
)

// readRequest takes an activity's fields from o, except those of deduplication, which belong
// to the call.
func (a *API) readRequest(o *Object) enqueue.Request {
	req := enqueue.Request{
		Protocol: activity.Protocol(o.Text("protocol")),
		Options: activity.Options{
			KeyID:          o.Text("keyId"),
			Job:            o.Text("job"),
			ServerURL:      o.Text("serverUrl"),
			OrderingKey:    o.Text("orderingKey"),
			Priority:       activity.Priority(o.Text("priority")),
			Coalesce:       activity.Coalesce(o.Text("coalesce")),
			CoalesceCreate: o.Flag("coalesceCreate", false),
			Notify:         o.Flag("notify", false),
			Metadata:       readMetadata(o),
		},
		AllowKeyOfOther: o.Flag("allowKeyOfOther", false),
		Headers:         readHeaders(o),
		Delay:           o.Duration("delay", 0),
		ExpiresIn:       o.Duration("expiresIn", time.Millisecond),
		Recipients:      readRecipients(o),
		EveryInbox:      !o.Flag("preferSharedInbox", true),
	}
	// Each protocol has a field for its content. The field of another protocol is not taken,
	// and so is reported as unknown.
	p, known := a.o.Protocols.Of(req.Protocol)
	if known && p.Intake.Body == protocol.None {
		o.Fault("protocol", "is not for requests of the API; it is one of %q", a.o.Protocols.Offered())
	}
	body := ""
	if p.Intake.Body == protocol.Text {
		body = o.textOr(string(protocol.Text))
	} else if raw, ok := o.take(string(protocol.JSON)); ok {
		body = string(raw) // sent byte for byte, so never decoded
	}
	if body != "" {
		req.Body = &body
	}
	return req
}

// readMetadata reads the caller's object, without white space.
func readMetadata(o *Object) string {
	raw, ok := o.take("metadata")
	if !ok {
		return ""
	}
	var b bytes.Buffer
	switch err := json.Compact(&b, raw); {
	case err != nil || raw[0] != '{':
		o.Fault("metadata", "is not an object")
	case b.Len() > activity.MaxMetadata:
		o.Fault("metadata", "has %d bytes; the limit is %d", b.Len(), activity.MaxMetadata)
	default:
		return b.String()
	}
	return ""
}

func readRecipients(o *Object) []enqueue.Recipient {
	return list(o, "recipients", maxListed, func(at string, value json.RawMessage) enqueue.Recipient {
		if inbox, fault := text(value); fault == "" {
			return enqueue.Recipient{Inbox: inbox}
		}
		one := o.inner(at, value, `is neither an inbox URL nor an object {"inbox", "sharedInbox", "headers"}`)
		defer one.Done()
		return enqueue.Recipient{Inbox: one.textOr("inbox"), SharedInbox: one.Text("sharedInbox"), Headers: readHeaders(one)}
	})
}

// mostHeaders is how many headers are read of a list. Package enqueue allows fewer.
const mostHeaders = 20

func readHeaders(o *Object) []activity.Header {
	return list(o, "headers", mostHeaders, func(at string, value json.RawMessage) activity.Header {
		h := o.inner(at, value, `is not an object {"name", "value", "sign"}`)
		defer h.Done()
		return activity.Header{Name: h.textOr("name"), Value: h.textOr("value"), Sign: h.Flag("sign", false)}
	})
}

func accepted(r enqueue.Result) client.Accepted {
	return client.Accepted{ID: string(r.ID), Status: string(r.Status), Recipients: r.Recipients}
}

// statusOf is the status of an activity as callers see it.
func statusOf(v ledger.View) client.Status {
	s := client.Status{
		ID: string(v.ID), Status: string(v.Status), Counts: Counts(v.Counts), Metadata: Raw(v.Metadata),
		Recipients: make([]client.RecipientStatus, len(v.Recipients)), NextCursor: v.NextCursor,
	}
	for i, r := range v.Recipients {
		inbox, canonical := Inbox(r.Inbox, r.Written)
		s.Recipients[i] = client.RecipientStatus{
			Inbox: inbox, CanonicalInbox: canonical, State: string(r.State), Recipients: r.Recipients, Attempts: r.Attempts,
			LastStatus: r.LastStatus, LastError: r.LastError, Response: r.Response, Note: r.Note,
			Reason: r.Reason, WaitsFor: r.WaitsFor, NextAttemptAt: r.NextAttemptAt, UpdatedAt: r.UpdatedAt, By: string(r.By),
		}
		for _, t := range r.Tries {
			s.Recipients[i].LastAttempts = append(s.Recipients[i].LastAttempts, client.Attempt{
				At: t.At, Status: t.Status, Error: t.Error, Form: t.Form, MS: t.Took.Milliseconds(),
			})
		}
	}
	return s
}

// Inbox is an inbox as its caller wrote it, and its canonical form if that differs.
func Inbox(canonical, written string) (inbox, beside string) {
	if written == "" {
		return canonical, ""
	}
	return written, canonical
}

// Raw is stored JSON in an answer; empty text is none.
func Raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// Counts are counts by state, as clients see them.
func Counts(by map[activity.State]int) map[string]int {
	all := make(map[string]int, len(by))
	for state, n := range by {
		all[string(state)] = n
	}
	return all
}
