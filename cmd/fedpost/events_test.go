package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"fedpost/client"
)

func TestEventsAreListedAndFollowed(tt *testing.T) {
	tt.Parallel()
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
			t.Errorf("event %d is %+v; want recipient.gone of activity %s, 410, count %d", i, e, id, i+1)
		}
	}
	t.run([]string{"events"}, "TIME", "recipient.gone", inbox.URL+"/ada", "(2 times since ")
	t.run([]string{"events", "--type", "recipient.dead,server.gone"}, "none")
	t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", inbox.URL + "/ada", "--notify"})
	t.until("1 failed", "events", "--type", "activity.done")
	t.run([]string{"events", "--limit", "1"}, "go on with --after ")
	if err := json.Unmarshal([]byte(t.run([]string{"events", "--json"})), &page); err != nil || len(page.Events) != 4 || page.Next == "" {
		t.Errorf("events prints %+v, error %v; want 4 events and what is next", page, err)
	}
	t.run([]string{"events", "--after", page.Next}, "none")
	t.run([]string{"events", "--after", "now"}, "none")
	t.fails("must be one of", "events", "--type", "gone")
	t.fails("after is not the value of next", "events", "--follow", "--after", "x")
}

// follows runs a command that does not end by itself, and returns its lines.
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

// TestAFollowerWhomNobodyLetsWaitDoesNotAskWithoutEnd: a server has a bounded number of waiting
// readers, and answers others at once.
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
