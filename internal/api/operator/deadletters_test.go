package operator_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

// deadLetter is what the API shows of one.
type deadLetter struct {
	ID         string      `json:"id"`
	Activity   activity.ID `json:"activity"`
	Protocol   string      `json:"protocol"`
	Type       string      `json:"type"`
	Job        string      `json:"job"`
	Inbox      string      `json:"inbox"`
	Host       string      `json:"host"`
	Recipients int         `json:"recipients"`
	Reason     string      `json:"reason"`
	Attempts   int         `json:"attempts"`
	LastStatus int         `json:"lastStatus"`
	LastError  string      `json:"lastError"`
	Response   string      `json:"response"`
	DiedAt     time.Time   `json:"diedAt"`
}

// giveUp has a delivery die now.
func (w *world) giveUp(typ, host string) deadletter.DeadLetter {
	w.Helper()
	target := activity.Target{Inbox: "https://" + host + "/inbox", Stands: 2}
	l := deadletter.DeadLetter{
		Activity: activity.Activity{ID: w.newID(), Protocol: activity.ActivityPub, Type: typ, Body: `{"secret":true}`, CreatedAt: w.clock},
		Delivery: message.Delivery{Chunk: 0, Position: 3, Targets: []activity.Target{target}, Generation: 2},
		Last: ledger.Recipient{
			Position: 3, Target: target, State: activity.Dead, Attempts: 5, LastStatus: 503, LastError: "answered 503",
			Response: "busy", UpdatedAt: w.clock, Generation: 1,
		},
		Reason: "exhausted", Died: w.clock, Forget: w.clock.Add(30 * 24 * time.Hour),
	}
	if err := w.store.AddDeadLetters(w.Context(), []deadletter.DeadLetter{l}); err != nil {
		w.Fatal(err)
	}
	return l
}

func (w *world) deadLetters(query url.Values) (all []deadLetter) {
	w.Helper()
	for {
		var page struct {
			DeadLetters []deadLetter `json:"deadLetters"`
			NextCursor  string       `json:"nextCursor"`
		}
		w.must("GET", "/v1/dead-letters?"+query.Encode(), "", &page)
		all = append(all, page.DeadLetters...)
		if page.NextCursor == "" {
			return all
		}
		query.Set("cursor", page.NextCursor)
	}
}

func TestDeadLettersAreListedByWhatIsAskedFor(t *testing.T) {
	w := newWorld(t)
	old := w.giveUp("Create", "a.example")
	w.clock = start.Add(24 * time.Hour)
	var young []deadletter.DeadLetter
	for i := range 5 {
		young = append(young, w.giveUp([]string{"Create", "Like"}[i%2], fmt.Sprintf("h%d.example:8443", i%2)))
	}
	yesterday := start.Add(time.Hour).Format(time.RFC3339)
	for name, c := range map[string]struct {
		query url.Values
		want  int
	}{
		"all":            {url.Values{}, 6},
		"page by page":   {url.Values{"limit": {"1"}}, 6},
		"by id":          {url.Values{"id": {old.Name().String()}}, 1},
		"by activity":    {url.Values{"activity": {string(young[2].Activity.ID)}}, 1},
		"by host":        {url.Values{"host": {"h0.example:8443"}}, 3},
		"by host's case": {url.Values{"host": {"A.example"}}, 1},
		"by URL":         {url.Values{"host": {"https://a.example"}}, 1},
		"by type":        {url.Values{"type": {"Like"}}, 2},
		"since":          {url.Values{"since": {yesterday}}, 5},
		"by two":         {url.Values{"since": {yesterday}, "type": {"Create"}}, 3},
		"none":           {url.Values{"host": {"a.example"}, "since": {yesterday}}, 0},
	} {
		if got := w.deadLetters(c.query); len(got) != c.want {
			t.Errorf("%s: %d dead letters, want %d", name, len(got), c.want)
		}
	}
	want := deadLetter{
		ID: old.Name().String(), Activity: old.Activity.ID, Protocol: "activitypub", Type: "Create", Inbox: "https://a.example/inbox",
		Host: "a.example", Recipients: 2, Reason: "exhausted", Attempts: 5, LastStatus: 503, LastError: "answered 503", Response: "busy", DiedAt: start,
	}
	if got := w.deadLetters(url.Values{"id": {want.ID}}); len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func (w *world) retry(body string) (n int, more bool) {
	w.Helper()
	var done struct {
		Retried int  `json:"retried"`
		More    bool `json:"more"`
	}
	w.must("POST", "/v1/dead-letters/retry", body, &done)
	return done.Retried, done.More
}

func TestDeadLettersAreRetriedByIDHostActivityAndTime(t *testing.T) {
	w := newWorld(t)
	one, two, three := w.giveUp("Create", "a.example"), w.giveUp("Create", "b.example"), w.giveUp("Like", "c.example")
	w.clock = start.Add(time.Hour)
	w.giveUp("Like", "d.example")
	for body, host := range map[string]string{
		`{"id":"` + one.Name().String() + `"}`:              "a.example",
		`{"host":"b.example"}`:                              "b.example",
		`{"activity":"` + string(three.Activity.ID) + `"}`:  "c.example",
		`{"since":"2026-11-21T12:30:00Z","type":"Like"}`:    "d.example",
		`{"since":"2026-11-21T12:30:00Z","type":"Dislike"}`: "",
	} {
		n, more := w.retry(body)
		got := w.receive(queue.Normal)
		if host == "" {
			if n != 0 || len(got) != 0 {
				t.Errorf("%s retried %d", body, n)
			}
			continue
		}
		if n != 1 || len(got) != 1 {
			t.Errorf("%s retried %d, more %t; %d messages", body, n, more, len(got))
			continue
		}
		m, err := message.Decode(got[0].Body)
		if err != nil {
			t.Fatal(err)
		}
		if d := m.Deliver; d.Targets[0].Host() != host || d.Attempts != 0 || d.Generation != 2 || !d.Since.Equal(w.clock) {
			t.Errorf("%s sent %+v", body, d)
		}
		if n, _ := w.retry(body); n != 0 {
			t.Errorf("%s a second time retried %d", body, n)
		}
	}
	if got := w.deadLetters(url.Values{}); len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
	if n := two.Last.Generation; n != 1 {
		t.Errorf("the generation of a death is %d", n)
	}
}

func TestARetryIsBoundedAndGoesOn(t *testing.T) {
	w := newWorld(t)
	for range 230 {
		w.giveUp("Create", "a.example")
	}
	left := 230
	for _, limit := range []int{1, 150, 1000} {
		n, more := w.retry(fmt.Sprintf(`{"host":"a.example","limit":%d}`, limit))
		if want := min(limit, left); n != want {
			t.Errorf("limit %d: retried %d, want %d", limit, n, want)
		}
		if left -= n; more != (left > 0) {
			t.Errorf("limit %d: more is %t, %d are left", limit, more, left)
		}
	}
}

func TestWhatIsWrongWithARequestAboutDeadLettersIsSaid(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ says, method, path, body string }{
		{"id is not the id of a dead letter", "GET", "/v1/dead-letters?id=x", ""},
		{"host is not a host name", "GET", "/v1/dead-letters?host=a+b", ""},
		{"activity is not the id", "GET", "/v1/dead-letters?activity=Create", ""},
		{"since is", "GET", "/v1/dead-letters?since=yesterday", ""},
		{"between 1 and 200", "GET", "/v1/dead-letters?limit=201", ""},
		{"nextCursor", "GET", "/v1/dead-letters?cursor=x", ""},
		{"no query parameter", "GET", "/v1/dead-letters?hots=a.example", ""},
		{"say what to retry", "POST", "/v1/dead-letters/retry", ""},
		{"say what to retry", "POST", "/v1/dead-letters/retry", "{}"},
		{"say what to retry", "POST", "/v1/dead-letters/retry", `{"limit":10}`},
		{"#/id", "POST", "/v1/dead-letters/retry", `{"id":"x"}`},
		{"#/host", "POST", "/v1/dead-letters/retry", `{"host":"a b"}`},
		{"#/activity", "POST", "/v1/dead-letters/retry", `{"activity":"x"}`},
		{"#/since", "POST", "/v1/dead-letters/retry", `{"since":"x"}`},
		{"#/limit", "POST", "/v1/dead-letters/retry", `{"host":"a.example","limit":10001}`},
		{"#/hots", "POST", "/v1/dead-letters/retry", `{"hots":"a.example"}`},
		{"no query parameter", "POST", "/v1/dead-letters/retry?host=a.example", ""},
	} {
		w.refused(http.StatusBadRequest, c.says, c.method, c.path, c.body)
	}
	w.unsupported("POST", "/v1/dead-letters/retry", "no Content-Type")
	w.giveUp("Create", "a.example")
	w.outage(func() {
		w.refused(http.StatusServiceUnavailable, "cannot be reached", "GET", "/v1/dead-letters", "")
		w.refused(http.StatusServiceUnavailable, "0 were", "POST", "/v1/dead-letters/retry", `{"host":"a.example"}`)
	})
	if n, _ := w.retry(`{"host":"a.example"}`); n != 1 {
		t.Errorf("after the outage %d are retried", n)
	}
}
