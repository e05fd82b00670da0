package deliver_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/testkit/world"
)

// cycle answers deliveries with one status after the other, whatever inbox they are
// for, and passes every probe: 0 resets the connection, -n is 429 with
// Retry-After: n.
func cycle(w *world.World, statuses ...int) world.Script {
	n := 0
	return world.OneByOne(func(r world.Request, _ int) outcome.Outcome {
		if strings.HasPrefix(r.Inbox, "probe:") {
			return world.Status(200)
		}
		s := statuses[n%len(statuses)]
		n++
		switch {
		case s == 0:
			return outcome.Outcome{Class: outcome.Retry, Reason: outcome.ConnReset, Err: "connection reset"}
		case s < 0:
			return outcome.Outcome{Class: outcome.Throttled, Status: 429, Err: "answered 429", RetryAfter: w.Now().Add(time.Duration(-s) * time.Second)}
		}
		return world.Status(s)
	})
}

// None of these answers takes a delivery, and none refuses it for good.
func TestAHostThatTakesNoneCostsFewPostsADayWhateverItAnswers(t *testing.T) {
	t.Parallel()
	for _, statuses := range [][]int{
		{302},
		{408},
		{425},
		{100},
		{600},
		{500},
		{0},
		{-1},
		{-1, 408},
		{408, 500},
		{0, 408},
		{401, -1},
		{302, -1, 500},
		{-1, 408, 500, 0},
		{-1, 401, 408, 500, 0},
	} {
		t.Run(fmt.Sprint(statuses), func(t *testing.T) {
			w := world.New(t, world.Options{})
			w.Servers.Script("bad.example", cycle(w, statuses...))
			var ids []activity.ID
			for i := range 60 {
				ids = append(ids, w.Send(w.Activity("Create"), fmt.Sprintf("https://bad.example/inbox%d", i%2)))
			}
			w.Run(2*time.Hour, 5*time.Second)
			before := len(w.Servers.Got())
			w.Run(24*time.Hour, time.Minute)
			for _, id := range ids {
				for inbox, r := range w.States(id) {
					if r.State != activity.Parked {
						t.Errorf("%s is %s", inbox, r.State)
					}
				}
			}
			day := len(w.Servers.Got()) - before
			t.Logf("%d POSTs in the first two hours, %d in the day after", before, day)
			if day > 50 {
				t.Errorf("%d POSTs a day to a host that takes none", day)
			}
		})
	}
}
