package healthcheck_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/testkit/world"
)

// tried counts the POSTs of each check to each inbox of a server that passes probes and
// answers deliveries with 500.
type tried struct {
	checks, most int
	posts        map[string]int
}

func (c *tried) script(r world.Request, _ int) outcome.Outcome {
	if strings.HasPrefix(r.Inbox, "probe:") {
		c.checks++
		c.posts = map[string]int{}
		return world.Status(200)
	}
	if c.checks > 0 {
		c.posts[r.Inbox]++
		c.most = max(c.most, c.posts[r.Inbox])
	}
	return world.Status(500)
}

// Found by the simulation: from the second check on, each tried the only head of an ordered
// group three times.
func TestACheckTriesTheHeadOfAnOrderedGroupOnce(t *testing.T) {
	for _, inboxes := range []int{1, 2} {
		w := world.New(t, world.Options{})
		var c tried
		w.Servers.Script("a.example", c.script)
		for i := range inboxes {
			for range 2 {
				a := w.Activity("Create")
				a.OrderingKey = fmt.Sprint("line ", i)
				w.Send(a, fmt.Sprintf("https://a.example/%d/inbox", i))
			}
		}
		w.Run(3*24*time.Hour, 10*time.Second)
		if c.most != 1 || c.checks < 7 {
			t.Errorf("%d inboxes: up to %d POSTs to one in each of %d checks", inboxes, c.most, c.checks)
		}
	}
}

func TestACheckTriesAnInboxForWhichManyWaitOnce(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("a.example", world.Down)
	for i := range 70 {
		inbox := "https://a.example/inbox"
		if i == 35 {
			inbox = "https://a.example/other"
		}
		w.Send(w.Activity("Create"), inbox)
	}
	w.Run(50*time.Second, time.Second)
	var c tried
	w.Servers.Script("a.example", c.script)
	w.Run(2*24*time.Hour, 10*time.Second)
	if c.most != 1 || c.checks < 6 {
		t.Errorf("up to %d POSTs to one inbox in each of %d checks", c.most, c.checks)
	}
}

// An inbox behind more deliveries to another than a check looks at has its turn at one of
// the next quick checks.
func TestAnInboxBehindManyDeliveriesToAnotherIsFound(t *testing.T) {
	const fine = "https://a.example/fine"
	w := world.New(t, world.Options{})
	w.Servers.Script("a.example", world.Down)
	for range 500 {
		w.Send(w.Activity("Create"), "https://a.example/inbox")
	}
	id := w.Send(w.Activity("Create"), fine)
	w.Run(50*time.Second, time.Second)
	var c tried
	w.Servers.Script("a.example", c.script)
	w.Servers.Script(fine, world.Answers(202))
	w.Run(2*time.Hour, 10*time.Second)
	w.Expect(id, map[string]activity.State{fine: activity.Delivered})
}
