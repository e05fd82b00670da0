package enqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"fedpost/internal/activity"
	"fedpost/internal/protocol"
)

// maxEscaped is how many bytes a body may take as a JSON string in a queue message of 1 MiB,
// which must also hold a chunk's targets. Only a body full of control characters exceeds this
// and not the body limit.
const maxEscaped = 640 << 10

const (
	maxOrderingKey = 1024 // bytes
	// MaxTTL is the longest deduplication window of a request.
	MaxTTL = 30 * 24 * time.Hour
)

// item is a request that has been checked.
type item struct {
	Request
	said       protocol.Content
	headers    activity.Headers
	targets    []activity.Target
	recipients int
}

// check returns req as an item and adds its faults to f. The item may be used
// only if there are no faults.
func (s *Service) check(ctx context.Context, req Request, f faults) (item, error) {
	it := item{Request: req}
	if p, ok := s.o.Protocols.Of(cmp.Or(req.Protocol, s.o.Protocols.Default())); ok {
		it.Protocol = p.Name
		if err := s.checkProtocol(ctx, &it, p, f); err != nil {
			return it, err
		}
	} else {
		f.add("/protocol", "is %q; it is one of %q, of which the first is the default", req.Protocol, s.o.Protocols.Offered())
	}
	s.checkRecipients(&it, f)
	it.headers = checkHeaders(req.Headers, headersBytes, f.below("/headers"))
	s.checkOptions(req, f)
	if it.Coalesce == activity.CoalesceNone {
		it.Coalesce = "" // "none" is the default
	}
	checkKey(req.DeduplicationKey, req.DeduplicationTTL, req.DeduplicateBy, f)
	return it, nil
}

func (s *Service) checkProtocol(ctx context.Context, it *item, p protocol.Protocol, f faults) error {
	s.checkDelivered(it, p.Intake, f)
	if !p.Intake.Headers {
		refuseHeaders(it, p.Name, f)
	}
	if p.Intake.Single {
		checkSingle(it, p.Name, f)
	}
	if s.expects(p, protocol.Job, it.Job, f) {
		checkJob(it.Job, f)
	}
	if s.expects(p, protocol.ServerURL, it.ServerURL, f) {
		it.ServerURL = checkServer(it.ServerURL, f)
	}
	if s.expects(p, protocol.KeyID, it.KeyID, f) {
		return s.checkKeyID(ctx, it, f)
	}
	if it.AllowKeyOfOther {
		f.add("/allowKeyOfOther", "does not belong to protocol %q, which signs %s", p.Name, p.Intake.Signs)
	}
	return nil
}

// expects reports whether a protocol uses a field. A field that the protocol does
// not use must be empty.
func (s *Service) expects(p protocol.Protocol, field protocol.Field, value string, f faults) bool {
	if slices.Contains(p.Intake.Fields, field) {
		return true
	}
	switch {
	case value == "":
	case field == protocol.KeyID && p.Intake.Signs != "":
		f.add("/keyId", "does not belong to protocol %q, which signs %s", p.Name, p.Intake.Signs)
	default:
		f.add("/"+string(field), "does not belong to protocol %q, but to %q", p.Name, s.o.Protocols.With(field))
	}
	return false
}

func (s *Service) checkDelivered(it *item, in protocol.Intake, f faults) {
	pointer := "/" + string(in.Body)
	switch {
	case it.Body == nil:
		f.add(pointer, "is missing; %s", in.Missing)
	case s.checkBody(pointer, *it.Body, f) && in.Inspector != nil:
		said, found := in.Inspector.Inspect(*it.Body)
		for _, fault := range found {
			f.add(pointer+fault.Pointer, "%s", fault.Detail)
		}
		it.said = said
	}
}

func (s *Service) checkKeyID(ctx context.Context, it *item, f faults) error {
	id := it.KeyID
	if id == "" {
		f.add("/keyId", "is missing; give the id of the key to sign with")
		return nil
	}
	brief, cancel := s.o.Markers.Brief(ctx)
	defer cancel()
	known, err := s.o.Keys.Known(brief, id)
	switch {
	case err != nil && s.o.Markers.Open() && ctx.Err() == nil:
		// A key that is missing after all shows in the outcomes of the
		// deliveries.
		s.o.Log.DebugContext(ctx, "the signing key could not be looked for, going on without", "key", id, "error", err)
	case err != nil:
		return fmt.Errorf("look for key: %w", err)
	case !known:
		f.add("/keyId", "names no key; store it first with PUT /v1/keys/{id}, or make one with POST /v1/keys")
		return nil
	}
	if actor := it.said.Actor; actor != "" && !it.AllowKeyOfOther && !keyOf(id, actor) {
		f.add("/keyId", "is not a key of the activity's actor, so servers would refuse the activity; sign with a key of that actor, or set allowKeyOfOther to forward it for another")
	}
	return nil
}

func checkJob(job string, f faults) {
	switch {
	case job == "":
		f.add("/job", "is missing; give the job's name, such as deliver-post")
	case len(job) > 128 || job != protocol.Name(job) || strings.Contains(job, " "):
		f.add("/job", "is no job name: up to 128 bytes without spaces, control and format characters")
	}
}

func checkServer(url string, f faults) string {
	server, err := canonical(url, activity.CanonicalServer)
	switch {
	case err != nil:
		f.add("/serverUrl", "%v", err)
	case strings.Contains(server, "?"):
		f.add("/serverUrl", "has a query; give the origin of the server")
	}
	return server
}

func checkSingle(it *item, name activity.Protocol, f faults) {
	if len(it.Recipients) > 1 {
		f.add("/recipients", "lists %d; a delivery by protocol %q has exactly one target URL", len(it.Recipients), name)
	}
	for i, r := range it.Recipients {
		if r.SharedInbox != "" {
			f.add(fmt.Sprintf("/recipients/%d/sharedInbox", i), "does not belong to protocol %q", name)
		}
	}
}

func refuseHeaders(it *item, name activity.Protocol, f faults) {
	if len(it.Headers) > 0 {
		f.add("/headers", "does not belong to protocol %q", name)
	}
	for i, r := range it.Recipients {
		if len(r.Headers) > 0 {
			f.add(fmt.Sprintf("/recipients/%d/headers", i), "does not belong to protocol %q", name)
		}
	}
}

// checkBody reports whether a body of that size can be carried.
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
		f.add("/recipients", "is missing or empty; give at least one inbox URL")
		return
	}
	before := len(*f.list)
	rs := make([]Recipient, len(it.Recipients)) // a copy: the caller's list stays unchanged
	for i, r := range it.Recipients {
		var err error
		rs[i].writtenInbox, rs[i].writtenShared = r.Inbox, r.SharedInbox
		if rs[i].Inbox, err = canonicalInbox(r.Inbox); err != nil {
			f.add(fmt.Sprintf("/recipients/%d/inbox", i), "%v", err)
		}
		if len(r.Headers) > 0 {
			rs[i].encoded = checkHeaders(r.Headers, recipientHeaders, f.below(fmt.Sprintf("/recipients/%d/headers", i)))
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
	var differ []int
	it.targets, it.recipients, differ = collapse(it.Recipients, it.EveryInbox)
	for _, i := range differ {
		f.add(fmt.Sprintf("/recipients/%d/headers", i), "differ from those of an earlier recipient at the same inbox or shared inbox; give both the same, or set preferSharedInbox to false")
	}
	if n := len(it.targets); n > s.o.Limits.Inboxes {
		f.add("/recipients", "has %d inboxes after duplicates and shared inboxes are collapsed; the limit is %d: split the list", n, s.o.Limits.Inboxes)
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
		f.add("/delay", "is longer than %s", days(s.o.Limits.Delay))
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

// checkKey accepts any string but the empty one. An empty key is a client's
// mistake: all of the client's requests would count as one.
func checkKey(key *string, ttl time.Duration, by DeduplicateBy, f faults) {
	if key != nil && *key == "" {
		f.add("/deduplicationKey", "is empty; leave it out or give a key")
	}
	switch {
	case ttl == 0:
	case key == nil:
		f.add("/deduplicationTtl", "needs a deduplicationKey")
	case ttl < time.Second || ttl > MaxTTL:
		f.add("/deduplicationTtl", "is %s; it is between 1s and %s", days(ttl), days(MaxTTL))
	}
	switch {
	case by != "" && by != ByRequest && by != ByKey:
		f.add("/deduplicateBy", "is %q; it is one of request and key", by)
	case by != "" && key == nil:
		f.add("/deduplicateBy", "needs a deduplicationKey")
	}
}

// escapedLen is how many bytes s takes as a JSON string in a queue message.
func escapedLen(s string) int {
	n := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f':
				n += 2
			case c < ' ':
				n += 6
			default:
				n++
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == '\u2028' || r == '\u2029' || r == '\ufffe' || r == '\uffff' {
			n += 6
		} else {
			n += size
		}
		i += size
	}
	return n
}

// maxURL is the longest URL in bytes: the targets of a chunk must fit in one table item.
const maxURL = 2048

// canonical returns the canonical spelling of a URL, or why fedpost cannot post to it. Whether
// the host's address is public is checked on dialling, because it may change until then.
func canonical(s string, spell func(string) (string, error)) (string, error) {
	switch {
	case len(s) > maxURL:
		return "", errors.New("is longer than " + strconv.Itoa(maxURL) + " bytes")
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "", errors.New("holds a space or control character; percent-encode it")
	case strings.Contains(s, "#"):
		return "", errors.New("has a fragment, which is never sent; remove what is after the #")
	}
	c, err := spell(s)
	if len(c) > maxURL {
		return "", errors.New("is longer than " + strconv.Itoa(maxURL) + " bytes, percent-encoded")
	}
	return c, err
}

// canonicalInbox does what canonical does, for an inbox or another URL that
// fedpost posts to.
func canonicalInbox(s string) (string, error) { return canonical(s, activity.CanonicalURL) }

// days writes a duration for people: "30 days" in place of "720h0m0s".
func days(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == day:
		return "1 day"
	case d > 0 && d%day == 0:
		return strconv.Itoa(int(d/day)) + " days"
	}
	s := d.String()
	for _, zero := range []string{"0s", "0m"} {
		if cut, ok := strings.CutSuffix(s, zero); ok && strings.HasSuffix(cut, "m") || ok && strings.HasSuffix(cut, "h") {
			s = cut
		}
	}
	return s
}
