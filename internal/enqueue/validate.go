package enqueue

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"fedpost/internal/activity"
)

// maxEscaped is how many bytes a body may take in a queue message of 1 MiB that
// has to hold a chunk's targets, too. Only bodies made of control characters,
// which no JSON document may hold, are within the body limit and over this one.
const maxEscaped = 640 << 10

// maxOrderingKey is the longest ordering key in bytes.
const maxOrderingKey = 1024

// maxTTL is the longest deduplication window a request may ask for.
const maxTTL = 30 * 24 * time.Hour

// item is a request that is in order.
type item struct {
	Request
	typ        string
	targets    []activity.Target
	recipients int
}

// check returns req as an item and adds what is wrong with it to f. The item is
// of use only if nothing is.
func (s *Service) check(ctx context.Context, req Request, f faults) (item, error) {
	it := item{Request: req}
	switch req.Protocol {
	case activity.ActivityPub:
		if err := s.checkActivityPub(ctx, &it, f); err != nil {
			return it, err
		}
	case activity.Sipher:
		s.checkSipher(&it, f)
	default:
		f.add("/protocol", "is %q; it is one of %q (the default) and %q", req.Protocol, activity.ActivityPub, activity.Sipher)
	}
	s.checkRecipients(&it, f)
	s.checkOptions(req, f)
	checkKey(req.DeduplicationKey, req.DeduplicationTTL, f)
	return it, nil
}

func (s *Service) checkActivityPub(ctx context.Context, it *item, f faults) error {
	switch {
	case it.Body == nil:
		f.add("/activity", "is missing; give the activity to deliver, a JSON object")
	case s.checkBody("/activity", *it.Body, f):
		h, ok := readHead(*it.Body)
		if !ok {
			f.add("/activity", "is not a JSON object")
		} else if !h.HasActor {
			f.add("/activity/actor", "is missing; give the id of the actor who sends it")
		}
		it.typ = h.Type
	}
	if it.Job != "" {
		f.add("/job", "belongs to protocol %q", activity.Sipher)
	}
	if it.ServerURL != "" {
		f.add("/serverUrl", "belongs to protocol %q", activity.Sipher)
	}
	if it.KeyID == "" {
		f.add("/keyId", "is missing; give the id of the key to sign with")
		return nil
	}
	known, err := s.o.Keys.Known(ctx, it.KeyID)
	if err != nil {
		return fmt.Errorf("look for key: %w", err)
	}
	if !known {
		f.add("/keyId", "names no key; store it first with PUT /v1/keys/{id}, or make one with POST /v1/keys")
	}
	return nil
}

// checkSipher leaves the payload's content alone: the protocol settles that at
// delivery, with an outcome of its own.
func (s *Service) checkSipher(it *item, f faults) {
	if it.Body == nil {
		f.add("/payload", "is missing; give the exact JSON text to encrypt, as a string")
	} else {
		s.checkBody("/payload", *it.Body, f)
	}
	switch {
	case it.Job == "":
		f.add("/job", "is missing; give the job's name, such as deliver-post")
	case len(it.Job) > 128 || strings.ContainsFunc(it.Job, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		f.add("/job", "is no job name: up to 128 bytes without spaces and control characters")
	}
	server, err := canonical(it.ServerURL, activity.CanonicalServer)
	switch {
	case err != nil:
		f.add("/serverUrl", "%v", err)
	case strings.Contains(server, "?"):
		f.add("/serverUrl", "has a query; give the origin of the server")
	}
	it.ServerURL = server
	if it.KeyID != "" {
		f.add("/keyId", "does not belong to protocol %q, which signs with the server's own identity", activity.Sipher)
	}
	if len(it.Recipients) > 1 {
		f.add("/recipients", "lists %d; a Sipher job has exactly one target URL", len(it.Recipients))
	}
	for i, r := range it.Recipients {
		if r.SharedInbox != "" {
			f.add(fmt.Sprintf("/recipients/%d/sharedInbox", i), "does not belong to protocol %q", activity.Sipher)
		}
	}
}

// checkBody reports whether the body can be carried.
func (s *Service) checkBody(pointer, body string, f faults) bool {
	switch {
	case len(body) > s.o.Limits.Body:
		f.tooLarge(pointer, "has %d bytes; the limit is %d", len(body), s.o.Limits.Body)
	case !utf8.ValidString(body):
		f.add(pointer, "is not UTF-8")
	case escapedLen(body) > maxEscaped:
		f.tooLarge(pointer, "is too large for a queue message because it is mostly control characters")
	default:
		return true
	}
	return false
}

func (s *Service) checkRecipients(it *item, f faults) {
	if len(it.Recipients) == 0 {
		f.add("/recipients", "lists nobody; give at least one inbox URL")
		return
	}
	before := len(*f.list)
	rs := make([]Recipient, len(it.Recipients)) // the caller keeps its list
	for i, r := range it.Recipients {
		var err error
		if rs[i].Inbox, err = canonicalInbox(r.Inbox); err != nil {
			f.add(fmt.Sprintf("/recipients/%d/inbox", i), "%v", err)
		}
		if r.SharedInbox == "" {
			continue
		}
		if rs[i].SharedInbox, err = canonicalInbox(r.SharedInbox); err != nil {
			f.add(fmt.Sprintf("/recipients/%d/sharedInbox", i), "%v", err)
		}
	}
	it.Recipients = rs
	if len(*f.list) > before {
		return
	}
	it.targets, it.recipients = collapse(it.Recipients, it.EveryInbox)
	if n := len(it.targets); n > s.o.Limits.Inboxes {
		f.add("/recipients", "makes %d inboxes, after duplicates and shared inboxes; the limit is %d: split the list", n, s.o.Limits.Inboxes)
	}
}

func (s *Service) checkOptions(req Request, f faults) {
	if len(req.OrderingKey) > maxOrderingKey {
		f.add("/orderingKey", "has %d bytes; the limit is %d", len(req.OrderingKey), maxOrderingKey)
	}
	switch {
	case req.Delay < 0:
		f.add("/delay", "is negative")
	case req.Delay > s.o.Limits.Delay:
		f.add("/delay", "is longer than %s", s.o.Limits.Delay)
	}
	if req.ExpiresIn < 0 {
		f.add("/expiresIn", "is negative")
	}
	if req.Priority != "" && !req.Priority.Valid() {
		f.add("/priority", "is %q; it is one of high, normal and low", req.Priority)
	}
	if req.Coalesce != "" && req.Coalesce != activity.CoalesceNone && req.Coalesce != activity.CoalesceLatest {
		f.add("/coalesce", "is %q; it is one of none and latest", req.Coalesce)
	}
	if req.CoalesceCreate && req.Coalesce != activity.CoalesceLatest {
		f.add("/coalesceCreate", "needs coalesce to be latest")
	}
}

// checkKey accepts any string but the empty one, which is a client's mistake:
// all its requests would count as one.
func checkKey(key *string, ttl time.Duration, f faults) {
	if key != nil && *key == "" {
		f.add("/deduplicationKey", "is empty; leave it out or give a key")
	}
	switch {
	case ttl == 0:
	case key == nil:
		f.add("/deduplicationTtl", "needs a deduplicationKey")
	case ttl < time.Second || ttl > maxTTL:
		f.add("/deduplicationTtl", "is %s; it is between 1s and %s", ttl, maxTTL)
	}
}
