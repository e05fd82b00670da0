package operator_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

// refusedBy records an activity that each of the inboxes has refused.
func (w *world) refusedBy(inboxes ...string) activity.ID {
	w.Helper()
	id := w.newID()
	r := ledger.Record{ID: id, CreatedAt: w.clock, Recipients: len(inboxes), Targets: len(inboxes), Chunk: ledger.ChunkSize, Forget: w.clock.Add(30 * 24 * time.Hour)}
	var rs []ledger.Recipient
	for p, inbox := range inboxes {
		t := activity.Target{Inbox: inbox, Stands: 1}
		r.Inline = append(r.Inline, t)
		rs = append(rs, ledger.Recipient{Position: p, Target: t, State: activity.Failed, Attempts: 1, LastStatus: 404, UpdatedAt: w.clock})
	}
	u := message.Unit{Activity: id, Position: message.Whole}
	must := func(err error) {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
	}
	ctx := w.Context()
	must(w.store.CreateActivity(ctx, r))
	must(w.store.KeepContent(ctx, activity.Activity{ID: id, Protocol: activity.ActivityPub, Type: "Create", Body: "{}", CreatedAt: w.clock}, r.Forget))
	k, err := w.store.Inspect(ctx, u)
	must(err)
	c, err := w.store.Claim(ctx, u, k, "worker", w.clock.Add(time.Minute))
	must(err)
	must(w.store.Record(ctx, &c, rs, true))
	return id
}

func TestRecipientsThatRefusedAreRetriedOnRequest(t *testing.T) {
	w := newWorld(t)
	id := w.refusedBy("https://a.example/inbox", "https://b.example/inbox", "https://c.example/inbox")
	path := "/v1/activities/" + string(id) + "/retry"
	for _, c := range []struct {
		body  string
		hosts string
	}{
		{`{"inboxes":["HTTPS://B.example:443/inbox"]}`, "b.example"},
		{`{"states":["failed"],"inboxes":["https://c.example/inbox","https://nobody.example/inbox"]}`, "c.example"},
		{`{"states":["dead"]}`, ""},
		{"", "a.example"}, // the others are being retried
		{"", ""},
	} {
		var done client.RetriedActivity
		w.must("POST", path, c.body, &done)
		asked := w.clock
		w.clock = w.clock.Add(3 * time.Second)
		var hosts []string
		for _, m := range w.receive(queue.Normal) {
			d, err := message.Decode(m.Body)
			if err != nil {
				t.Fatal(err)
			}
			if d.Deliver.Generation < 10_000 || !d.Deliver.Since.Equal(asked) || d.Activity.Body != "{}" {
				t.Errorf("sent %+v of %+v", d.Deliver, d.Activity)
			}
			hosts = append(hosts, d.Deliver.Targets[0].Host())
		}
		want := strings.Fields(c.hosts)
		if done.ID != string(id) || done.Retried != len(want) || done.NextCursor != "" || !sameWords(hosts, want) {
			t.Errorf("%s retried %+v at %v, want %v", c.body, done, hosts, want)
		}
	}
}

func sameWords(a, b []string) bool {
	seen := map[string]int{}
	for _, s := range a {
		seen[s]++
	}
	for _, s := range b {
		seen[s]--
	}
	for _, n := range seen {
		if n != 0 {
			return false
		}
	}
	return true
}

func TestWhatIsWrongWithARetryIsSaid(t *testing.T) {
	w := newWorld(t)
	id := w.refusedBy("https://a.example/inbox")
	path := "/v1/activities/" + string(id) + "/retry"
	many := `{"inboxes":[` + strings.Repeat(`"https://a.example/inbox",`, 1000) + `"https://a.example/inbox"]}`
	for body, says := range map[string]string{
		`{"states":["delivered"]}`:  "#/states/0",
		`{"states":[7]}`:            "#/states/0",
		`{"states":[]}`:             "/states is empty",
		`{"states":"failed"}`:       "/states is not a list",
		`{"inboxes":["a.example"]}`: "#/inboxes/0",
		`{"inboxes":[""]}`:          "#/inboxes/0",
		`{"inboxes":[]}`:            "/inboxes is empty",
		many:                        "more than 1000",
		`{"cursor":"x"}`:            "#/cursor",
		`{"limit":10}`:              "#/limit",
		`[]`:                        "not a JSON object",
	} {
		w.refused(http.StatusBadRequest, says, "POST", path, body)
	}
	w.refused(http.StatusBadRequest, "no query parameter", "POST", path+"?x=1", "")
	w.refused(http.StatusNotFound, "no such activity", "POST", "/v1/activities/x/retry", "")
	w.refused(http.StatusNotFound, "no such activity", "POST", "/v1/activities/01ARZ3NDEKTSV4RRFFQ69G5FAV/retry", "")
	w.unsupported("POST", path, "no Content-Type")
	w.outage(func() { w.refused(http.StatusServiceUnavailable, "Try again", "POST", path, "") })
	if got := w.receive(queue.Normal); len(got) != 0 {
		t.Errorf("%d messages were sent", len(got))
	}
	if err := w.store.CancelActivity(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.refused(http.StatusConflict, "was cancelled", "POST", path, "")
}
