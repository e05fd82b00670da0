package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
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

const headerIdempotencyKey = "Idempotency-Key"

// readKey reads the call's deduplication key, from the body or the header, its window, and what
// must be the same in a repeated call.
func readKey(o *Object, h http.Header) (*string, time.Duration, enqueue.DeduplicateBy) {
	key := o.optional("deduplicationKey")
	ttl := o.Duration("deduplicationTtl", time.Second)
	by := enqueue.DeduplicateBy(o.Text("deduplicateBy"))
	values := h.Values(headerIdempotencyKey)
	if len(values) == 0 {
		return key, ttl, by
	}
	header, err := idempotencyKey(values)
	switch {
	case err != nil:
		o.faults.add("/deduplicationKey", "is given as %s header, which %v", headerIdempotencyKey, err)
	case key != nil && *key != header:
		o.Fault("deduplicationKey", "differs from the %s header; give one of them, or the same", headerIdempotencyKey)
	default:
		key = &header
	}
	return key, ttl, by
}

// idempotencyKey reads the header: a string in the sense of structured fields,
// as the draft wants, or anything else as it stands, as most clients send it.
// https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
// https://www.rfc-editor.org/rfc/rfc9651#name-parsing-a-string
func idempotencyKey(values []string) (string, error) {
	// Some gateways split a header at its commas.
	s := strings.TrimSpace(strings.Join(values, ","))
	if s == "" {
		return "", errors.New("is empty")
	}
	if s[0] != '"' {
		return s, nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"':
			rest := strings.TrimSpace(s[i+1:])
			if rest != "" && rest[0] != ';' {
				return "", errors.New("goes on after its closing quote")
			}
			if b.Len() == 0 {
				return "", errors.New("is empty")
			}
			return b.String(), nil
		case c == '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", errors.New(`has a backslash that escapes neither " nor \`)
			}
			b.WriteByte(s[i])
		case c < ' ' || c > '~':
			return "", errors.New("holds a character that is not printable ASCII")
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("has no closing quote")
}
