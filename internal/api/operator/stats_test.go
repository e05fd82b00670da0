package operator_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fedpost/client"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger/stats"
	"fedpost/internal/protocol/sipher/follow"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/servers/circuit"
)

func TestStatsShowWhatWaitsHowTheRestEndedAndWhoIsDown(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.clock = start.Add(time.Duration(i) * time.Minute)
		if err := w.engine.Queue(queue.Low).Send(t.Context(), queue.Message{Body: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.engine.Queue(queue.Low).Send(t.Context(), queue.Message{Body: "x", Delay: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.engine.Queue(queue.Low).Receive(t.Context(), queue.ReceiveOptions{Max: 1, Visibility: time.Hour}); err != nil {
		t.Fatal(err)
	}
	w.clock = start.Add(150 * time.Second)
	for day, n := range map[string]int{"2026-11-19": 1, "2026-11-20": 10, "2026-11-21": 100} {
		for _, process := range []string{"a", "b"} {
			if err := w.store.PutCounts(t.Context(), day, process, map[string]int{"delivered": n}, w.clock.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 30 {
		w.change(circuit.HostKey(fmt.Sprintf("d%02d.example", i)), func(s circuit.State) circuit.State {
			return s.Fault(rules, "dns", "no such host", start.Add(-time.Duration(i)*time.Minute))
		})
	}
	w.change(circuit.HostKey("bad.example"), func(s circuit.State) circuit.State { return s.Block(rules, "", start) })
	w.change(circuit.InboxKey("https://a.example/inbox"), down)
	w.register("https://peer.example")
	if err := w.store.Sipher().MarkUnhealthy(t.Context(), "https://peer.example", peers.TimedOut, start.AddDate(0, 0, -7)); err != nil {
		t.Fatal(err)
	}

	var r client.Stats
	w.must("GET", "/v1/stats", "", &r)
	low := r.Queues[string(queue.Low)]
	if low.Visible != 2 || low.InFlight != 1 || low.Delayed != 1 || low.Oldest == nil || *low.Oldest != 150 {
		t.Errorf("low is %+v", low)
	}
	if q := r.Queues[string(queue.Dead)]; len(r.Queues) != len(queue.Names) || q.Oldest == nil || *q.Oldest != 0 {
		t.Errorf("queues are %+v", r.Queues)
	}
	if len(r.Days) != 1 || r.Days[0].Day != "2026-11-21" || r.Counts["delivered"] != 200 || r.Counts["dead"] != 0 {
		t.Errorf("counts are %+v of %+v", r.Counts, r.Days)
	}
	if r.Servers["unhealthy"] != 31 || r.Servers["blocked"] != 1 || r.Servers["inbox"] != 1 || r.Servers["healthy"] != 0 {
		t.Errorf("servers are %v", r.Servers)
	}
	if u := r.Unhealthy; len(u) != 20 || u[0].Server != "https://peer.example" || u[1].Server != "d29.example" || u[1].Reason != "dns" {
		t.Errorf("unhealthy are %+v", r.Unhealthy)
	}
	w.must("GET", "/v1/stats?days=3", "", &r)
	if len(r.Days) != 3 || r.Days[0].Day != "2026-11-19" || r.Counts["delivered"] != 222 {
		t.Errorf("counts of three days are %+v of %+v", r.Counts, r.Days)
	}
}

func TestAHostIsCountedOnceWhateverIsDownOfIt(t *testing.T) {
	w := newWorld(t)
	fault := func(key string, ago time.Duration, keyID string) {
		w.change(key, func(s circuit.State) circuit.State {
			s.KeyID = keyID
			return s.Fault(rules, "status", "answered 401", start.Add(-ago))
		})
	}
	fault(circuit.InboxKey("https://a.example/inbox"), time.Minute, "")
	fault(circuit.InboxKey("https://a.example/inbox#key-0123456789ab"), time.Hour, frida+"#main-key")
	fault(circuit.HostKey("b.example"), time.Minute, "")
	fault(circuit.InboxKey("https://b.example/inbox"), time.Hour, "")
	var r client.Stats
	w.must("GET", "/v1/stats", "", &r)
	if diff := cmp.Diff(map[string]int{"inbox": 1, "unhealthy": 1}, r.Servers); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	want := []client.Trouble{
		{Server: "inbox:https://a.example/inbox#key-0123456789ab", Host: "a.example", KeyID: frida + "#main-key", Inboxes: 2, Protocol: "activitypub", Phase: "unhealthy", DownSince: start.Add(-time.Hour), Reason: "status", Why: "answered 401"},
		{Server: "b.example", Inboxes: 1, Protocol: "activitypub", Phase: "unhealthy", DownSince: start.Add(-time.Minute), Reason: "status", Why: "answered 401"},
	}
	if diff := cmp.Diff(want, r.Unhealthy); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
}

func TestStatsCountWhatTheAPIAccepts(t *testing.T) {
	w := newWorld(t)
	key := `{"id":"https://social.example/users/frida#main-key","type":"ed25519"}`
	if a := w.do("POST", "/v1/keys", key); a.status != http.StatusCreated {
		t.Fatalf("POST /v1/keys is answered %d, want 201: %s", a.status, a.body)
	}
	for i := range 3 {
		body := `{"activity":{"type":"Create","actor":"https://social.example/users/frida","object":{}},"keyId":"https://social.example/users/frida#main-key",` +
			`"recipients":["https://a.example/inbox","https://b.example/inbox"],"deduplicationKey":"` + fmt.Sprint(i/2) + `"}`
		if a := w.do("POST", "/v1/activities", body); a.status != http.StatusAccepted {
			t.Fatalf("POST /v1/activities is answered %d, want 202: %s", a.status, a.body)
		}
	}
	var r client.Stats
	w.must("GET", "/v1/stats", "", &r)
	if n := r.Counts[stats.Accepted]; n != 4 {
		t.Errorf("%d recipients are counted as accepted, want 4: one of three requests was a duplicate", n)
	}
	if d, f := r.Counts[stats.Duplicates], r.Counts[stats.Fallbacks]; d != 1 || f != 0 {
		t.Errorf("%d duplicates and %d fallbacks are counted, want 1 and 0", d, f)
	}
}

func TestFollowsAreListedPageByPage(t *testing.T) {
	w := newWorld(t)
	var page struct {
		Follows    []follow.Follow `json:"follows"`
		NextCursor string          `json:"nextCursor"`
	}
	w.must("GET", "/v1/follows", "", &page)
	if page.Follows == nil || len(page.Follows) != 0 {
		t.Errorf("no follows are %+v", page)
	}
	want := map[string]bool{}
	for i := range 23 {
		f := follow.Follow{
			ID: fmt.Sprint(i), FollowerID: fmt.Sprint("u", i), FollowingID: "v", FollowerServerURL: "https://peer.example",
			RecordedAt: start, UpdatedAt: start,
		}
		if err := w.store.Sipher().RecordFollow(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		want[f.ID] = true
	}
	if _, err := w.store.Sipher().AcceptFollow(t.Context(), follow.Key{FollowerID: "u7", FollowingID: "v", ServerURL: "https://peer.example"}, start); err != nil {
		t.Fatal(err)
	}
	query := "?limit=5"
	for {
		w.must("GET", "/v1/follows"+query, "", &page)
		for _, f := range page.Follows {
			if !want[f.ID] || f.Accepted != (f.ID == "7") {
				t.Errorf("listed twice or wrong: %+v", f)
			}
			delete(want, f.ID)
		}
		if page.NextCursor == "" {
			break
		}
		query = "?limit=5&cursor=" + page.NextCursor
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
}

func TestWhatIsWrongWithARequestForStatsOrFollowsIsSaid(t *testing.T) {
	w := newWorld(t)
	w.refused(400, "between 1 and 31", "GET", "/v1/stats?days=32", "")
	w.refused(400, "between 1 and 31", "GET", "/v1/stats?days=all", "")
	w.refused(400, "no query parameter", "GET", "/v1/stats?day=1", "")
	w.refused(400, "nextCursor", "GET", "/v1/follows?cursor=%3F", "")
	w.refused(400, "between 1 and 1000", "GET", "/v1/follows?limit=1001", "")
	w.refused(400, "no query parameter", "GET", "/v1/follows?id=1", "")
	w.outage(func() {
		w.refused(503, "cannot be reached", "GET", "/v1/stats", "")
		w.refused(503, "cannot be reached", "GET", "/v1/follows", "")
	})
}

func TestAHistoryIsOfTheHourOrTheDay(t *testing.T) {
	w := newWorld(t)
	w.refused(404, "CloudWatch", "GET", "/v1/stats/history", "")
	w.tally.Remember()
	w.tally.Add("delivered", 3)
	w.clock = start.Add(20 * time.Minute)
	w.tally.Add("delivered", 4)
	for query, want := range map[string]client.History{
		"":             {From: start.Add(-39 * time.Minute), StepSeconds: 60, Since: start, Counts: counts(60, 39, 3, 59, 4)},
		"?period=hour": {From: start.Add(-39 * time.Minute), StepSeconds: 60, Since: start, Counts: counts(60, 39, 3, 59, 4)},
		"?period=day":  {From: start.Add(-94 * 15 * time.Minute), StepSeconds: 900, Since: start, Counts: counts(96, 94, 3, 95, 4)},
	} {
		var h client.History
		w.must("GET", "/v1/stats/history"+query, "", &h)
		if diff := cmp.Diff(want, h); diff != "" {
			t.Errorf("%q: %s", query, diff)
		}
	}
	w.refused(400, "hour, day", "GET", "/v1/stats/history?period=week", "")
	w.refused(400, "no query parameter", "GET", "/v1/stats/history?days=1", "")
}

// counts are steps of which two are not zero.
func counts(steps, first, n, second, m int) map[string][]int {
	s := make([]int, steps)
	s[first], s[second] = n, m
	return map[string][]int{"delivered": s}
}
