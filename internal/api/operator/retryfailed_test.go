package operator_test

import (
	"net/http"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
	"fedpost/internal/message"
)

// TestWhatHasFailedIsRetriedWithDeadLetters of the same host, if that is asked for.
func TestWhatHasFailedIsRetriedWithDeadLetters(t *testing.T) {
	w := newWorld(t)
	l := w.giveUp("Create", "a.example")
	id := w.refusedBy("https://a.example/inbox", "https://b.example/inbox")
	var ends []events.End
	for p, inbox := range []string{"https://a.example/inbox", "https://b.example/inbox"} {
		e, _ := events.EndOf(id, events.About{Type: "Create"}, ledger.Recipient{Target: activity.Target{Inbox: inbox}, Position: p, State: activity.Failed, LastStatus: 404, UpdatedAt: w.clock})
		ends = append(ends, e)
	}
	if err := w.store.AppendEnds(t.Context(), ends); err != nil {
		t.Fatal(err)
	}
	const path = "/v1/dead-letters/retry"
	for _, c := range []struct {
		body string
		want map[activity.ID]string // activity and host of what is sent
	}{
		{`{"host":"a.example"}`, map[activity.ID]string{l.Activity.ID: "a.example"}},
		{`{"host":"a.example","failed":false}`, nil},
		{`{"host":"a.example","type":"Like","failed":true}`, nil},
		{`{"host":"a.example","failed":true}`, map[activity.ID]string{id: "a.example"}},
		{`{"host":"a.example","failed":true}`, nil},
		{`{"activity":"` + string(id) + `","failed":true}`, map[activity.ID]string{id: "b.example"}},
	} {
		var done client.Retried
		w.must("POST", path, c.body, &done)
		w.clock = w.clock.Add(3 * time.Second)
		got := w.receive(queue.Normal)
		if done != (client.Retried{Retried: len(c.want)}) || len(got) != len(c.want) {
			t.Errorf("%s: %+v, %d messages", c.body, done, len(got))
		}
		for _, m := range got {
			d, err := message.Decode(m.Body)
			if err != nil {
				t.Fatal(err)
			}
			if host := d.Deliver.Targets[0].Host(); c.want[d.Activity.ID] != host {
				t.Errorf("%s: sent %s to %s", c.body, d.Activity.ID, host)
			}
		}
	}
	for body, says := range map[string]string{
		`{"failed":true}`: "#/since",
		`{"failed":true,"id":"` + l.Name().String() + `"}`:        "#/failed",
		`{"failed":1,"host":"a.example"}`:                         "#/failed",
		`{"host":"a.example","cursor":"event.x"}`:                 "#/cursor",
		`{"host":"a.example","failed":true,"cursor":"event.x"}`:   "#/cursor",
		`{"host":"a.example","failed":true,"cursor":"host.0.X."}`: "#/cursor",
		`{"host":"a.example","failed":true,"cursor":7}`:           "#/cursor",
		`{"type":"Create","failed":true,"cursor":"chunk.0"}`:      "#/cursor",
	} {
		w.refused(http.StatusBadRequest, says, "POST", path, body)
	}
}
