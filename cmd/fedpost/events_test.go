package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alecthomas/kong"

	"fedpost/internal/api/client"
)

func TestEventsAreListedAndFollowed(tt *testing.T) {
	t := onServer(tt)
	inbox := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusGone)
	}))
	defer inbox.Close()
	t.run([]string{"events"}, "none")
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})

	var page client.Events
	if err := json.Unmarshal([]byte(t.run([]string{"events", "--json"})), &page); err != nil {
		t.Fatal(err)
	}
	lines := t.follows("events", "--follow", "--json", "--after", page.Next, "--type", "recipient.gone")
	for i := range 2 {
		out := t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", inbox.URL + "/ada"})
		id, _, _ := strings.Cut(out, " ")
		var e client.Event
		if err := json.Unmarshal([]byte(<-lines), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type != "recipient.gone" || e.ActivityID != id || e.Inbox != inbox.URL+"/ada" || e.Status != 410 || e.Count != i+1 || e.Activity.Actor != "https://social.example/users/frida" {
			t.Errorf("%+v", e)
		}
	}
	t.run([]string{"events"}, "TIME", "recipient.gone", inbox.URL+"/ada", "(2 times since ")
	t.run([]string{"events", "--type", "recipient.dead,server.gone"}, "none")
	t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", inbox.URL + "/ada", "--notify"})
	t.until("1 failed", "events", "--type", "activity.done")
	t.run([]string{"events", "--limit", "1"}, "go on with --after ")
	if err := json.Unmarshal([]byte(t.run([]string{"events", "--json"})), &page); err != nil || len(page.Events) != 4 || page.Next == "" {
		t.Errorf("%+v, %v", page, err)
	}
	t.run([]string{"events", "--after", page.Next}, "none")
	t.run([]string{"events", "--after", "now"}, "none")
	t.fails("must be one of", "events", "--type", "gone")
	t.fails("was given out", "events", "--follow", "--after", "x")
}

// follows runs a command that goes on, and returns its lines.
func (t terminal) follows(args ...string) <-chan string {
	t.Helper()
	r, w := io.Pipe()
	var c commands
	p, err := parser(&c, screen{w: w}, kong.Exit(func(int) { t.Errorf("%q ended the process", args) }))
	if err != nil {
		t.Fatal(err)
	}
	k, err := p.Parse(append(args, "--url", t.url, "--token", token))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	k.BindTo(ctx, (*context.Context)(nil))
	done := make(chan error, 1)
	go func() { done <- k.Run(slog.New(slog.DiscardHandler)) }()
	lines := make(chan string, 16)
	go func() {
		var rest []byte
		b := make([]byte, 4096)
		for {
			n, err := r.Read(b)
			if err != nil {
				return
			}
			rest = append(rest, b[:n]...)
			for {
				line, more, ok := bytes.Cut(rest, []byte("\n"))
				if !ok {
					break
				}
				lines <- string(line)
				rest = more
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%q: %v", args, err)
		}
		w.Close()
	})
	return lines
}

// TestAFollowerWhomNobodyLetsWaitDoesNotAskWithoutEnd: a server lets a bounded number of
// readers wait, and answers others at once.
func TestAFollowerWhomNobodyLetsWaitDoesNotAskWithoutEnd(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		if _, err := io.WriteString(w, `{"events":[],"next":"AQ","more":false}`); err != nil {
			t.Error(err)
		}
	}))
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	c := eventsCommand{remote: remote{reach: reach{URL: s.URL}}, Follow: true}
	if err := c.Run(ctx, io.Discard); err != nil {
		t.Error(err)
	}
	if n := asked.Load(); n > 3 {
		t.Errorf("asked %d times in 0.3 s", n)
	}
}

// TestAFollowerWaitsAsLongAsItIsTold: by a page for which too many wait already, and by a
// refusal that says when to come again.
func TestAFollowerWaitsAsLongAsItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var asked []time.Duration
		none := `{"events":[],"next":"AQ","more":false`
		answers := []struct {
			status int
			header string
			body   string
		}{
			{200, "", none + `}`}, // the first request does not wait
			{200, "5", none + `,"retryAfter":5}`},
			{429, "7", `{"status":429,"title":"Too Many Requests"}`},
			{503, "9", `{"status":503,"title":"Service Unavailable"}`},
			{503, "", `{"status":503,"title":"Service Unavailable"}`},
			{200, "", none + `}`}, // at once, from a server that does not say how long
			{200, "3", `{"events":[{"id":"evt_1","type":"server.gone","time":"2026-11-21T12:00:00Z","host":"a.example"}],"next":"Ag","more":false,"retryAfter":3}`},
			{200, "5", none + `,"retryAfter":5}`},
		}
		server := roundTripper(func(r *http.Request) (*http.Response, error) {
			answer := answers[len(asked)]
			if asked = append(asked, time.Since(begin)); len(asked) == len(answers) {
				cancel()
			}
			return &http.Response{StatusCode: answer.status, Header: http.Header{"Retry-After": {answer.header}}, Body: io.NopCloser(strings.NewReader(answer.body)), Request: r}, nil
		})
		var out bytes.Buffer
		api := &client.Client{Base: "http://fedpost.test", HTTP: &http.Client{Transport: server}}
		if err := (eventsCommand{}).follow(ctx, api, &out); err != nil || !strings.Contains(out.String(), "a.example") {
			t.Errorf("%v, prints %q", err, out.String())
		}
		s := time.Second
		if want := []time.Duration{0, 0, 5 * s, 12 * s, 21 * s, 23 * s, 25 * s, 25 * s}; !slices.Equal(asked, want) {
			t.Errorf("asks at %v, not at %v", asked, want)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
