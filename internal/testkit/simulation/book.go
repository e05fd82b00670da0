package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/faults"
)

// book is what is known outside of fedpost: what was submitted and answered, what reached whom, and
// what it cost. Promises are checked against it.
type book struct {
	*sim
	posts     map[int]*posted
	byID      map[activity.ID]*posted
	hosts     map[string]*hostBook
	deadlines []time.Duration
	violation *Violation
	requests  int
	receives  int
	writes    int
	keys      keyring
	// left are the inboxes that may have left the FIFO group of their host; vain counts the POSTs
	// in vain of each post to each of them.
	left map[string]bool
	vain map[string]int
	// written counts the writes of items that have the id of an activity in their key.
	written map[string]int
}

// posted is the state of a post.
type posted struct {
	Post
	// began is when it was submitted first, answeredAt when that was answered with
	// 202 first.
	began, answeredAt time.Time
	tries             int
	ids               []activity.ID // distinct
	settled           bool          // its caller is finished with it
	unsure            bool          // a try ended without an answer
	inboxes           map[string]*delivery
	lookAt            time.Time // of the last acceptances that will be looked for
	receives          int
	// retried are the times of retries after which all failed recipients got new attempts.
	retried map[time.Duration]bool
}

// delivery is a post to one inbox.
type delivery struct {
	accepted []*acceptance
	// began is when its first attempt began, if a promise bounds that.
	began time.Time
	// dropped: the server answered 202 and dropped it.
	dropped bool
	// accepts: it is a follow, and its server accepts it.
	accepts bool
}

// forgotten reports whether its record may have expired.
func (p *posted) forgotten(s *sim) bool {
	return !p.answeredAt.IsZero() && time.Since(p.answeredAt) > p.Delay+p.remembered(s)
}

// acceptance is a request that a server took.
type acceptance struct {
	at time.Time
	by *process
	// excused: it may come again, as it was in the gap.
	excused  bool
	recorded bool
}

// hostBook is what a host received lately.
type hostBook struct {
	// posts are the POSTs of the last day since it last accepted, except those whose answer ended a
	// delivery.
	posts []time.Time
	// vain counts all of them since it last accepted.
	vain int
	good time.Time // it last accepted
	// refused has the last POST of each post to each inbox that was answered 403, tries counts all.
	refused map[string]refusal
	tries   map[string]int
	writes  []time.Time // of its state, of the last minute
	dropped int
}

// refusal is a 403 to the first signature form of an attempt.
type refusal struct {
	by   *process
	form bool // of the request
}

func newBook(s *sim) *book {
	b := &book{sim: s, posts: map[int]*posted{}, byID: map[activity.ID]*posted{}, hosts: map[string]*hostBook{}, keys: newKeyring(s.scenario.signers()), written: map[string]int{}, left: map[string]bool{}, vain: map[string]int{}}
	for _, a := range s.scenario.Acts {
		if a.Post == nil {
			continue
		}
		p := &posted{Post: *a.Post, inboxes: map[string]*delivery{}, retried: map[time.Duration]bool{}}
		for _, r := range a.Post.Recipients {
			p.inboxes[r.url()] = &delivery{}
		}
		b.posts[p.N] = p
	}
	return b
}

func (b *book) post(p Post) *posted { return b.posts[p.N] }

func (b *book) spec(n int) Post {
	if p := b.posts[n]; p != nil {
		return p.Post
	}
	// The shrunk story has no such post.
	b.posts[n] = &posted{Post: Post{N: n}, settled: true, inboxes: map[string]*delivery{}}
	return b.posts[n].Post
}

func (b *book) host(name string) *hostBook {
	h := b.hosts[name]
	if h == nil {
		h = &hostBook{good: b.began, refused: map[string]refusal{}, tries: map[string]int{}}
		b.hosts[name] = h
	}
	return h
}

// answered records the answer to a try of a post.
func (b *book) answered(p *posted, status int, body string) {
	switch {
	case status == 0:
		p.unsure = true
	case status != http.StatusAccepted:
		b.story.print("post %d is answered %d %.200s", p.N, status, body)
		if b.calm() && status != http.StatusConflict {
			b.fail("refused", "post %d is answered %d although it is in order: %.300s", p.N, status, body)
		}
		if status >= 500 || status == http.StatusConflict {
			p.unsure = true
		}
	default:
		id, _ := accepted(body)
		if len(p.ids) == 0 {
			p.answeredAt = time.Now()
			b.promise(p)
			b.story.print("post %d is accepted: %d recipients, ordering key %q, %s", p.N, len(p.Recipients), p.Ordering, id)
		} else if !slices.Contains(p.ids, id) && !b.unguarded(p) {
			b.fail("two ids", "post %d with deduplication key %q was accepted as %s and as %s", p.N, p.Dedup, p.ids[0], id)
		}
		if !slices.Contains(p.ids, id) {
			p.ids = append(p.ids, id)
		}
		b.byID[id] = p
	}
}

// unguarded reports whether a post may be accepted twice: it was submitted again, and if no marker
// can be written, fedpost goes on without.
func (b *book) unguarded(p *posted) bool {
	return p.tries > 1 && !b.calm() && b.settings.Deduplication.Fallback == "open"
}

// requested records a request that reached a server, and the server's answer.
func (b *book) requested(p *process, s *server, r request, a Answer) {
	b.requests++
	if !r.post {
		return
	}
	b.begins(r)
	h, now := b.host(r.host), time.Now()
	b.story.print("%s POSTs %d to %s%s: %s", p.name(), r.n, r.host, r.path, a)
	h.tried(r, a)
	switch {
	case a.Kind == Accepts || a.Kind == Swallows:
		h.good, h.posts, h.vain = now, nil, 0
		return
	}
	url := "https://" + r.host + r.path
	if b.vain[fmt.Sprint(r.n, url)]++; b.vain[fmt.Sprint(r.n, url)] >= leavesAfter {
		b.left[url] = true
	}
	if a.refuses() && h.ends(p, r, a) {
		return
	}
	h.posts, h.vain = append(h.posts, now), h.vain+1
	for now.Sub(h.posts[0]) > 24*time.Hour {
		h.posts = h.posts[1:]
	}
	late, most := h.posts, mostPosts
	for proven := h.good.Add(circuit.Proof); len(late) > 0 && !late[0].After(proven); {
		late = late[1:]
	}
	if len(late) == 0 {
		late, most = h.posts, mostPosts+underWay
	}
	if len(late) > most {
		b.fail("posts", "%s got %d POSTs within a day in which it took none (at most %d)", r.host, len(late), most)
	}
}

// ends reports whether a refusal ends a delivery: of two 403s to the signature forms of one attempt
// one does, so the second counts as in vain, and a 400 to the third try does, whatever the tries
// before were answered. All others are in vain.
func (h *hostBook) ends(p *process, r request, a Answer) bool {
	key := fmt.Sprint(r.n, r.path)
	switch a.Status {
	case http.StatusForbidden:
		if h.refused[key] == (refusal{p, !r.form}) {
			delete(h.refused, key)
			return false
		}
		h.refused[key] = refusal{p, r.form}
	case http.StatusBadRequest:
		if h.tries[key] < 3*requestsEach {
			return false
		}
		h.tries[key] = 0
	}
	return true
}

// requestsEach is how many requests a try has whose signature forms are both refused.
const requestsEach = 2

// tried counts the requests of the tries of each post at each inbox: all answers but 401 and 403 end a
// try at once.
func (h *hostBook) tried(r request, a Answer) {
	n := requestsEach
	if a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden {
		n = 1
	}
	h.tries[fmt.Sprint(r.n, r.path)] += n
}

// accepted records that a server took a post.
func (b *book) accepted(p *process, s *server, r request, lost bool) {
	of := b.posts[r.n]
	if of == nil {
		b.fail("body", "%s got what nobody has posted: %.200q", r.host, r.body)
		return
	}
	if string(r.body) != of.body() {
		b.fail("body", "post %d arrived changed at %s: %.300q instead of %.300q", r.n, r.host, r.body, of.body())
	}
	d := of.inboxes["https://"+r.host+r.path]
	b.fresh(of, r)
	if d == nil {
		b.fail("stranger", "post %d arrived at https://%s%s, which is none of its recipients", r.n, r.host, r.path)
		return
	}
	if len(d.accepted) > 0 {
		b.look(of)
	}
	for _, before := range d.accepted {
		if !before.excused && !b.unguarded(of) {
			b.fail("doubled", "https://%s%s took post %d twice: at %s and now", r.host, r.path, r.n, clock(before.at.Sub(b.began)))
		}
	}
	if len(d.accepted) == 0 {
		b.inOrder(of, r.host, "https://"+r.host+r.path)
	}
	a := &acceptance{at: time.Now(), by: p, excused: lost || p.dead.Load()}
	d.accepted = append(d.accepted, a)
	if !a.excused && !of.lookAt.Equal(a.at) {
		of.lookAt = a.at
		b.goes(func() {
			b.wait("record of "+strconv.Itoa(r.n), b.gap())
			if !b.over.Load() {
				b.look(of)
			}
		})
	}
}

// dropped records that a server answered 202 to a form that it does not take.
func (b *book) dropped(s *server, r request) {
	if of := b.posts[r.n]; of != nil && of.inboxes["https://"+r.host+r.path] != nil {
		of.inboxes["https://"+r.host+r.path].dropped = true
	}
	h := b.host(r.host)
	if h.dropped++; h.dropped > mostDropped {
		b.fail("form", "%s, which takes RFC 9421 only, got %d activities in the other form and dropped them", r.host, h.dropped)
	}
}

// gap is how long it may take to record what a server accepted: a second or two, and the time of a
// few calls.
func (b *book) gap() time.Duration {
	calls := mostCalls
	if b.us != nil {
		calls += sipherCalls
	}
	return 2*time.Second + time.Duration(calls)*2*b.scenario.Latency.Typical
}

// look finds out which acceptances of a post are recorded. One that is not by the end of the gap
// has to be excused by a failure of ours.
func (b *book) look(of *posted) {
	var recorded map[string]bool
	for inbox, d := range of.inboxes {
		for _, a := range d.accepted {
			if a.excused || a.recorded {
				continue
			}
			if len(of.ids) == 0 {
				a.excused = of.unsure
				continue
			}
			if recorded == nil {
				recorded = b.delivered(of)
			}
			a.recorded = recorded[inbox]
			switch since := time.Since(a.at); {
			case a.recorded:
			case a.by.dead.Load(), a.by.troubled.After(a.at), b.stale(a):
				a.excused = true
			case b.unguarded(of) && of.unsure:
				a.excused = true // its caller may not have learnt the id
			case since >= b.gap():
				b.fail("gap", "%s took post %d %s ago, which is not recorded", inbox, of.N, since)
			}
		}
	}
}

// unknown: the record has expired, so whether it has the outcome of a moment ago cannot be known.
func (b *book) unknown(of *posted, a *acceptance) bool {
	return of.forgotten(b.sim) && time.Since(a.at) <= b.gap()
}

// stale: the clocks were set back, so how long something took cannot be known.
func (b *book) stale(a *acceptance) bool { return a.by.skew != a.by.spec.Skew }

// delivered are the inboxes that are delivered according to the ledger.
func (b *book) delivered(of *posted) map[string]bool {
	all := map[string]bool{}
	for _, id := range of.ids {
		v, err := b.view(id)
		if errors.Is(err, ledger.ErrNotFound) && of.forgotten(b.sim) {
			// Records that have expired were there for as long as they mattered.
			for inbox := range of.inboxes {
				all[inbox] = true
			}
		}
		for _, r := range v.Recipients {
			all[r.Inbox] = all[r.Inbox] || r.State == activity.Delivered
		}
	}
	return all
}

func (b *book) view(id activity.ID) (ledger.View, error) {
	return ledger.ViewOf(context.Background(), b.raw, id, "", 1000, time.Now())
}

// died checks that what servers took from a dead process longer ago than the gap is recorded.
func (b *book) died(p *process) {
	for _, n := range slices.Sorted(maps.Keys(b.posts)) {
		of := b.posts[n]
		mine := false
		for _, d := range of.inboxes {
			for _, a := range d.accepted {
				mine = mine || a.by == p && !a.excused && !a.recorded
			}
		}
		if !mine {
			continue
		}
		recorded := b.delivered(of)
		for inbox, d := range of.inboxes {
			for _, a := range d.accepted {
				if a.by != p || a.excused || a.recorded {
					continue
				}
				a.recorded = recorded[inbox] && !b.unknown(of, a)
				if since := time.Since(a.at); !a.recorded && !(b.unguarded(of) && of.unsure) && since > b.gap() && len(of.ids) > 0 && !p.troubled.After(a.at) {
					b.fail("gap", "%s took post %d %s before a crash, and that was not recorded", inbox, of.N, since)
				}
				a.excused = !a.recorded
			}
		}
	}
}

// troubled records until when a call of a process fails, or takes long.
func (b *book) troubled(p *process, f fate) {
	if until := time.Now().Add(f.before + f.after + 1); (f.fault.Kind != 0 || f.before+f.after > time.Second) && until.After(p.troubled) {
		p.troubled = until
	}
}

// called records a call to a port.
func (b *book) called(p *process, c faults.Call) {
	if c.Target != "table" {
		return
	}
	switch c.Op {
	case "Put", "Delete", "PutAll", "DeleteAll", "Transact":
		b.writes += c.Entries
		b.wroteServer(c)
	}
}

// wroteServer counts writes of a host's state.
func (b *book) wroteServer(c faults.Call) {
	if !strings.HasPrefix(c.About, "S#") {
		return
	}
	_, key, _ := strings.Cut(c.About, " ")
	h, now := b.host(key), time.Now()
	h.writes = append(h.writes, now)
	for now.Sub(h.writes[0]) > time.Minute {
		h.writes = h.writes[1:]
	}
	if inbox, is := strings.CutPrefix(key, "inbox:"); is {
		inbox, _, _ = strings.Cut(inbox, "#")
		b.left[inbox] = true
	}
	host, ofHost := strings.CutPrefix(key, "host:")
	if ofHost && b.untroubled(host) {
		b.fail("writes", "the state of %s was written, which was never in trouble", host)
	}
	if most := mostServerWrites * len(b.scenario.Processes); len(h.writes) > most {
		b.fail("writes", "the state of %s was written %d times within a minute (at most %d)", key, len(h.writes), most)
	}
}

// untroubled reports whether a host takes everything at all times: such a host costs no write.
func (b *book) untroubled(host string) bool {
	s := b.servers[host]
	if s == nil || !b.calm() || len(s.Phases)+len(s.Inboxes) > 0 || s.Strict || s.Rate > 0 {
		return false
	}
	return !slices.ContainsFunc(b.scenario.Acts, func(a Act) bool { return a.Host == host || a.Do == SetBack })
}

// counted is a queue whose receives are counted.
type counted struct {
	queue.Queue
	book *book
	name queue.Name
}

var inMessage = regexp.MustCompile(`\\"sim\\":(\d+),`)

// Receive implements queue.Queue.
func (c counted) Receive(ctx context.Context, o queue.ReceiveOptions) ([]queue.Received, error) {
	o.Wait = 0 // there is something to receive, see Intercept
	got, err := c.Queue.Receive(ctx, o)
	for _, m := range got {
		c.book.receives++
		if found := inMessage.FindStringSubmatch(m.Body); found != nil {
			n, _ := strconv.Atoi(found[1])
			c.book.post(c.book.spec(n)).receives++
		}
	}
	return got, err
}
