package deliver_test

import (
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/testkit/world"
)

func TestTheLastFiveAttemptsOfWhoDidNotGetThroughAtFirstAreKept(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Spare()
	n := 0
	w.Servers.Script("moody.example", func(world.Request, int) outcome.Outcome {
		n++
		if n >= 7 { // probes count, too
			return outcome.Outcome{Class: outcome.Delivered, Status: 202, Form: "rfc9421"}
		}
		return outcome.Outcome{Class: outcome.Retry, Status: 500 + n, Err: "answered", Form: "cavage"}
	})
	w.Servers.Script("refuses.example", world.Answers(404))
	const moody, refuses, fine = "https://moody.example/inbox", "https://refuses.example/inbox", "https://fine.example/inbox"
	id := w.Send(w.Activity("Create"), moody, refuses, fine)
	w.Run(2*time.Hour, 5*time.Second)
	w.Expect(id, map[string]activity.State{moody: activity.Delivered, refuses: activity.Failed, fine: activity.Delivered})
	got := w.States(id)
	if got[fine].Tries != "" {
		t.Errorf("who got through at first has %s", got[fine].Tries)
	}
	if all, err := got[refuses].Tries.List(); err != nil || len(all) != 1 || all[0].Status != 404 {
		t.Errorf("who refused has %+v, %v", all, err)
	}
	all, err := got[moody].Tries.List()
	if err != nil || len(all) != 5 {
		t.Fatalf("%d tries, %v", len(all), err)
	}
	for i, try := range all {
		through := i == 4
		if (try.Status == 202) != through || (try.Error == "") != through || (try.Form == "rfc9421") != through || try.At.IsZero() || i > 0 && !try.At.After(all[i-1].At) {
			t.Errorf("try %d is %+v", i, try)
		}
	}
	if all[0].Status < 502 {
		t.Errorf("the first attempts are kept: %+v", all)
	}
}
