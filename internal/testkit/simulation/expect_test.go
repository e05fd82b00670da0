package simulation

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAShortOutageOfAnInboxMayWaitForTheServersDailyCheck if another inbox of the server has
// accepted nothing for long by then: the whole server may be down. The promise said two hours, and
// was broken in seed 116366084435.
func TestAShortOutageOfAnInboxMayWaitForTheServersDailyCheck(t *testing.T) {
	inItsOrder(t)
	fails := Answer{Kind: Says, Status: 500}
	held := Server{Host: "held.example", Inboxes: map[string][]Phase{
		"/h0/inbox": {{0, fails}, {3 * day, Answer{Kind: Accepts}}},
		"/h2/inbox": {{4 * hour, fails}, {4*hour + 48*minute, Answer{Kind: Accepts}}},
	}}
	old, post := Post{N: 1, Recipients: []Inbox{{held.Host, "/h0/inbox"}}, Text: "old"}, Post{N: 2, Recipients: []Inbox{{held.Host, "/h2/inbox"}}, Text: "new"}
	r := Run(t, Scenario{
		Seed: 1, Settings: map[string]string{},
		Processes: []Process{{Name: "up", Whole: true, Workers: 1, Schedule: true}},
		Servers:   []Server{held}, Acts: []Act{{At: minute, Post: &old}, {At: 4*hour + 2*minute, Post: &post}},
	})
	if r.Violation != nil {
		t.Errorf("%s after %s: %s", r.Violation.Kind, r.Violation.At.Round(time.Second), r.Violation.Text)
	}
	if !slices.ContainsFunc(r.Lines, func(l string) bool { return strings.Contains(l, "/h2/inbox: accepts") }) {
		t.Errorf("never delivered: %q", r.Lines)
	}

	s := &sim{scenario: Scenario{}, servers: map[string]*server{held.Host: {Server: held}}}
	s.book = newBook(s)
	to := post.Recipients[0]
	for _, c := range []struct {
		what       string
		from, long time.Duration
		otherFrom  time.Duration
	}{
		{"the other is down for long", 48 * minute, giveUp, 0},
		{"the other is down since an hour", 30 * minute, 2 * hour, 3*hour + 30*minute},
		{"the other is down later", 48 * minute, 2 * hour, 20 * hour},
	} {
		held.Inboxes["/h0/inbox"] = []Phase{{c.otherFrom, fails}}
		held.Inboxes["/h2/inbox"] = []Phase{{4 * hour, fails}, {4*hour + c.from, Answer{Kind: Accepts}}}
		want := 4*hour + c.from + patience(Span{To: c.long})
		if got := s.expect(post, to, 4*hour+2*minute, 0); got.by < want || got.by > want+minute || !got.must {
			t.Errorf("%s: by %s, must %t; want %s", c.what, got.by, got.must, want)
		}
	}
}
