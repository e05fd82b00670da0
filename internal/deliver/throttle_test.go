package deliver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// throttles answers 429 and asks for a pause.
func throttles(w *world.World, pause time.Duration) outcome.Outcome {
	return outcome.Outcome{Class: outcome.Throttled, Status: 429, Err: "answered 429", RetryAfter: w.Now().Add(pause)}
}

// inboxesAt are inboxes of a host, one for each of n users.
func inboxesAt(host string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("https://%s/u%d/inbox", host, i))
	}
	return all
}

// within counts the deliveries that a host accepted between two times, but for those to the
// inboxes named.
func within(w *world.World, from time.Time, d time.Duration, but ...string) (n int) {
	for _, r := range w.Servers.Got() {
		if r.Accepted && !strings.HasPrefix(r.Inbox, "probe:") && !slices.Contains(but, r.Inbox) && !r.At.Before(from) && r.At.Sub(from) <= d {
			n++
		}
	}
	return n
}

func TestAnInboxThatThrottlesHoldsUpNoOtherOfItsHost(t *testing.T) {
	for _, pause := range []time.Duration{time.Second, 5 * time.Minute} {
		t.Run(pause.String(), func(t *testing.T) {
			w := world.New(t, world.Options{})
			const page, n = "https://victim.example/page", 1000
			posts := 0
			w.Servers.Script(page, world.OneByOne(func(world.Request, int) outcome.Outcome {
				posts++
				return throttles(w, pause)
			}))
			w.Send(w.Activity("Create"), page)
			w.Run(2*time.Minute, time.Second)
			sent := w.Now()
			w.Send(w.Activity("Create"), inboxesAt("victim.example", n)...)
			w.Run(4*time.Minute, time.Second)
			if got := within(w, sent, 4*time.Minute, page); got != n {
				t.Errorf("%d of %d deliveries to the other inboxes of the host within 4 minutes", got, n)
			}
			w.Run(day, time.Minute)
			if posts > 20 {
				t.Errorf("%d POSTs in a day to the inbox that throttles", posts)
			}
		})
	}
}

func TestInboxesThatThrottleStarveNoOtherOfTheirHost(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	for _, pause := range []time.Duration{time.Second, 5 * time.Minute, 12 * time.Hour} {
		t.Run(pause.String(), func(t *testing.T) {
			w := world.New(t, world.Options{})
			const inbox = "https://victim.example/inbox"
			hours := long.Pick(24, 72)
			var all []string
			for n := range 20 {
				page := fmt.Sprintf("https://victim.example/page%d", n)
				w.Servers.Script(page, func(world.Request, int) outcome.Outcome { return throttles(w, pause) })
				all = append(all, page)
			}
			all = append(all, inbox)
			const meet, most = 12, 4 // posts until the host is known to take what is for the inbox, and how many may be late
			var late []int
			for n := range hours {
				id := w.Send(w.Activity("Create"), all...)
				w.Run(6*time.Minute, time.Second)
				if w.States(id)[inbox].State != activity.Delivered {
					late = append(late, n)
				}
				w.Run(54*time.Minute, 20*time.Second)
			}
			if got := within(w, world.Start, time.Duration(hours)*time.Hour); got != hours || len(late) > most || len(late) > 0 && late[len(late)-1] >= meet {
				t.Errorf("%d of %d posts reached the inbox that takes everything, those numbered %v after more than 6 minutes; want all, late at most %d of the first %d", got, hours, late, most, meet)
			}
		})
	}
}

// A host asks for one pause, and takes everything from its end on. What waits goes out at a
// rate that doubles; the trial after the pause takes a minute more.
func TestAfterOne429EverythingIsThroughInFourMinutes(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	const n, pause = 200, time.Minute
	for name, to := range map[string][]string{
		"one inbox":            slices.Repeat([]string{"https://big.example/inbox"}, n),
		"an inbox for each":    inboxesAt("big.example", n),
		"sent after the pause": inboxesAt("big.example", n),
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t, world.Options{})
			const first = "https://big.example/inbox"
			w.Send(w.Activity("Create"), first)
			w.Run(time.Minute, time.Second)
			var until time.Time
			w.Servers.Script("big.example", world.OneByOne(func(world.Request, int) outcome.Outcome {
				if until.IsZero() {
					until = w.Now().Add(pause)
				}
				if w.Now().Before(until) {
					return throttles(w, until.Sub(w.Now()))
				}
				return world.Status(202)
			}))
			w.Send(w.Activity("Create"), first)
			w.Run(time.Second, time.Second)
			if name == "sent after the pause" {
				w.Run(2*pause, time.Second)
				until = w.Now()
			}
			for _, inbox := range to {
				w.Send(w.Activity("Create"), inbox)
			}
			most := 4 * time.Minute
			if name != "sent after the pause" {
				most += time.Minute
			}
			w.Run(pause+5*time.Minute, time.Second)
			if got := within(w, until, most); got < n {
				t.Errorf("%d of %d deliveries within %s", got, n, most)
			}
		})
	}
}

// TestPagesThatThrottleTeachNoRate: three pages of a host throttled, while its inboxes had few
// deliveries. These few were taken for the limit of the host, so what waited went out at 11 a minute.
func TestPagesThatThrottleTeachNoRate(t *testing.T) {
	const host, few, n = "victim.example", 11, 150
	w := world.New(t, world.Options{})
	all := inboxesAt(host, n)
	w.Send(w.Activity("Create"), all[:few]...)
	w.Run(30*time.Second, time.Second)
	for i := range 4 {
		page := fmt.Sprintf("https://%s/page%d", host, i)
		w.Servers.Script(page, func(world.Request, int) outcome.Outcome { return throttles(w, time.Second) })
		w.Send(w.Activity("Create"), page)
		w.Work()
	}
	if s, err := circuit.Load(t.Context(), w.Store, circuit.HostKey(host)); err != nil || s.Phase != circuit.Paused {
		t.Fatalf("this test shows nothing: %s, %v", world.Brief(s), err)
	}
	sent := w.Now()
	w.Send(w.Activity("Create"), all...)
	w.Run(5*time.Minute, time.Second)
	if got := within(w, sent, 5*time.Minute); got < n {
		t.Errorf("%d of %d deliveries within 5 minutes", got, n)
	}
}

// A server that rounds its reset to seconds names a time that is up to a second early. After
// it one delivery decides whether the server takes the others.
func TestOneTrialFollowsAPauseWhateverWaits(t *testing.T) {
	w := world.New(t, world.Options{})
	const inbox = "https://busy.example/inbox"
	reset := world.Start.Add(10*time.Minute + 400*time.Millisecond)
	posts := 0
	w.Servers.Script("busy.example", world.OneByOne(func(r world.Request, _ int) outcome.Outcome {
		posts++
		at, ok := outcome.RateLimitReset(reset.Truncate(time.Second).Format(time.RFC3339), w.Now())
		if w.Now().Before(reset) || posts == 2 {
			if !ok {
				at = w.Now().Add(time.Minute)
			}
			return outcome.Outcome{Class: outcome.Throttled, Status: 429, Err: "answered 429", RetryAfter: at}
		}
		return world.Status(202)
	}))
	w.Send(w.Activity("Create"), inbox)
	w.Run(time.Minute, time.Second)
	for range 50 {
		w.Send(w.Activity("Create"), inbox)
	}
	w.Run(12*time.Minute-30*time.Second, time.Second)
	if posts != 2 {
		t.Errorf("%d requests, of which one is the trial after the pause", posts-1)
	}
}
