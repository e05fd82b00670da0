package simulation

import (
	"encoding/json"
	"fmt"
	"time"
)

// retries is a server of which some inboxes refuse for a while, and callers that ask for new
// attempts afterwards, or meanwhile, or twice at once.
func (d *drawing) retries() {
	s := Server{Host: "retried.example", Inboxes: map[string][]Phase{}}
	at, over := d.within(d.span), time.Duration(0)
	for i := range 1 + d.IntN(3) {
		says, down := Answer{Kind: Says, Status: pick(d.chances, 400, 403, 404, 410, 422)}, d.between(10*minute, 4*day)
		if d.is(0.3) {
			says.Status, down = 500, 9*day // until it is given up
		}
		s.Inboxes[fmt.Sprintf("/r%d/inbox", i)] = []Phase{{at, says}, {at + down, Answer{Kind: Accepts}}}
		over = max(over, at+down)
	}
	for range 2 + d.IntN(8) {
		p := Post{Recipients: []Inbox{{s.Host, "/inbox"}}, Actor: d.IntN(actors)}
		for path := range len(s.Inboxes) {
			if d.is(0.7) {
				p.Recipients = append(p.Recipients, Inbox{s.Host, fmt.Sprintf("/r%d/inbox", path)})
			}
		}
		posted := at + d.within(2*hour)
		d.add(posted, p)
		for range 1 + d.IntN(3) {
			when := posted + d.between(minute, 2*day)
			if d.is(0.6) {
				when = over + d.between(minute, 2*day)
			}
			d.Acts = append(d.Acts, Act{At: when, Do: Retry, N: d.n})
			if d.is(0.3) {
				d.Acts = append(d.Acts, Act{At: when + d.within(2*time.Second), Do: Retry, N: d.n})
			}
		}
	}
	d.Servers = append(d.Servers, s)
}

// retried changes an expectation by a retry. What was finished before gets new attempts from then
// on, and inboxes that no longer refuse get it. What was not finished may have missed its retry.
func (s *sim) retried(p Post, to Inbox, e expectation, at time.Duration) expectation {
	again := s.expect(p, to, at+time.Minute, at)
	if e.by >= at {
		return expectation{by: max(e.by, again.by, at+giveUp+slow+s.lives(to.Server))}
	}
	// A server that answered 410 counts as gone a little longer.
	for _, ps := range append([][]Phase{s.servers[to.Server].Phases}, s.servers[to.Server].Inboxes[to.Path]) {
		for _, ph := range ps {
			again.must = again.must && ph.Answer.Status != 410
		}
	}
	again.retry = at
	return again
}

// retryAnswered records whether a retry covered all failed recipients.
func (s *sim) retryAnswered(a Act, body string) {
	var answer struct {
		Retried, Unavailable int
		NextCursor           string
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		s.fail("operator", "a retry of post %d is answered %.300q: %v", a.N, body, err)
		return
	}
	s.story.print("a retry of post %d takes up %d, and not %d", a.N, answer.Retried, answer.Unavailable)
	s.book.posts[a.N].retried[a.At] = answer.Unavailable == 0 && answer.NextCursor == ""
}
