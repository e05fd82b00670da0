package page_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"fedpost/internal/api/problem"
)

func TestEventsAreShownTheNewestFirst(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	p := v.get("/events")
	v.says(p, 200, "recipient.gone", "server.recovered", "host39.example", `href="/activities/`+anActivity+`"`, "(10 times since 2026-11-20 03:07)", `data-stream="/events/stream?after=bmV4dA&amp;type="`)
	if newest, oldest := strings.Index(p.text, "host39.example"), strings.Index(p.text, "host0.example"); newest > oldest {
		t.Error("the oldest is first")
	}
	v.says(p, 200, "https://social.example/a/1", "4 delivered, 1 failed")
	if strings.Contains(p.text, `href="/servers/"`) {
		t.Error("an event without a server leads to one")
	}
	s.api.asked = nil
	v.says(v.get("/events?about=servers"), 200, `aria-current="true">Servers and webhooks`)
	if want := "/v1/events?after=recent&limit=1000&type=" + url.QueryEscape("server.unhealthy,server.exhausted,server.gone,server.recovered,webhook.disabled"); len(s.api.asked) != 1 || s.api.asked[0] != want {
		t.Errorf("asked %q, want %q", s.api.asked, want)
	}
}

// TestABurstOfEventsIsReadUpToABound: the newest hundred are shown.
func TestABurstOfEventsIsReadUpToABound(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	for page := range 11 {
		many := someEvents(1000, fmt.Sprint("page", page+1))
		many.More = true
		s.api.set(fmt.Sprintf("/v1/events?after=page%d&limit=1000", page), many)
		if page == 0 {
			s.api.set("/v1/events", many)
		}
	}
	s.api.asked = nil
	p := v.get("/events")
	if n := strings.Count(p.text, "<tr>"); n != 101 {
		t.Errorf("%d rows", n)
	}
	if n := len(s.api.asked); n != 10 {
		t.Errorf("asked %d times", n)
	}
}

func TestEventsAreStreamedAsTheyCome(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	s.api.set("/v1/events?after=first&limit=100", someEvents(3, "second"))
	s.api.set("/v1/events?after=second&limit=100&wait=20", someEvents(2, "third"))
	s.api.set("/v1/events?after=third&limit=100&wait=20", someEvents(0, "third"))
	s.api.asked = nil
	p := v.get("/events/stream?after=first&type=")
	if kind := p.Header.Get("Content-Type"); p.StatusCode != 200 || kind != "text/event-stream" {
		t.Fatalf("the stream is answered %d %s, want 200 text/event-stream: %s", p.StatusCode, kind, p.text)
	}
	if !strings.HasPrefix(p.text, "retry: 1000\n\nid: second\ndata: <tr>") || !strings.Contains(p.text, "\n\nid: third\ndata: <tr>") {
		t.Errorf("streamed %s", p.text)
	}
	if strings.Contains(p.text, "<script>alert") || !strings.Contains(p.text, "&lt;script&gt;") {
		t.Error("a stranger's text is not escaped")
	}
	for line := range strings.Lines(p.text) {
		if line != "\n" && !regexp.MustCompile(`^(retry|id|data): |^:`).MatchString(line) {
			t.Errorf("the line %q is none of a stream", line)
		}
	}
	// A browser that comes back goes on where it was.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/events/stream?after=first", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Last-Event-ID", "third")
	s.api.set("/v1/events?after=third&limit=100", someEvents(0, "third"))
	s.api.asked = nil
	p = v.ask(r)
	if strings.Contains(p.text, "data:") || s.api.asked[0] != "/v1/events?after=third&limit=100" {
		t.Errorf("asked %q, streamed %s", s.api.asked, p.text)
	}
}

// TestABrowserComesBackWhenTheFeedHasRoom: a stream that may not wait ends at once, and a
// second later there is no more room.
func TestABrowserComesBackWhenTheFeedHasRoom(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	full := someEvents(0, "first")
	full.RetryAfter = 5
	s.api.set("/v1/events?after=first&limit=100", someEvents(0, "first"))
	s.api.set("/v1/events?after=first&limit=100&wait=20", full)
	if p := v.get("/events/stream?after=first"); !strings.HasSuffix(p.text, "retry: 5000\n\n") {
		t.Errorf("streamed %s", p.text)
	}
}

func TestAStreamFromNowhereIsRefused(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	s.api.set("/v1/events?after=nonsense&limit=100", problem.New(http.StatusBadRequest, "The query parameter after is not the value of next in an earlier answer."))
	v.says(v.get("/events/stream?after=nonsense"), 400, "not the value of next")
	if p := s.visitor().get("/events/stream?after=first"); p.Request.URL.Path != "/sign-in" {
		t.Errorf("streamed to a stranger: %s", p.text)
	}
}
