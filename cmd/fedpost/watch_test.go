package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/caller"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// busy is a look at a fedpost with everything that a look can show.
func busy() glance {
	age := 90
	before := client.Stats{At: noon.Add(-2 * time.Second), Counts: map[string]int{"accepted": 4, "delivered": 7}}
	return glance{
		before: &before,
		stats: client.Stats{
			At: noon, Queues: map[string]client.QueueDepth{"normal": {Visible: 3, InFlight: 2, Delayed: 1, Oldest: &age}},
			Counts: map[string]int{"accepted": 9, "delivered": 10, "failed": 1}, Servers: map[string]int{"unhealthy": 1, "paused": 2},
			Waiting:   &client.WaitingInAll{Count: 10_000, AtLeast: true},
			Unhealthy: []client.Trouble{{Server: "a.example", Phase: "unhealthy", DownSince: noon.Add(-time.Hour), Reason: "timeout", Why: "evil\x1b[2J " + strings.Repeat("long ", 40)}},
		},
		history: &client.History{Counts: map[string][]int{"delivered": append(make([]int, 58), 1, 800)}},
	}
}

// drawn is what a view of a size shows of a glance.
func drawn(t *testing.T, g glance, width, height int) []string {
	t.Helper()
	var b bytes.Buffer
	v := &view{screen: screen{w: &b}, title: "fedpost at http://127.0.0.1:8080", size: func() (int, int, error) { return width, height, nil }}
	if err := v.show(g); err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(b.String(), home)
	text, ended := strings.CutSuffix(text, endOfLine+endOfView)
	if !ok || !ended {
		t.Fatalf("drawn %q", b.String())
	}
	return strings.Split(text, endOfLine+"\r\n")
}

func TestTheViewShowsWhatIsGoingOn(t *testing.T) {
	all := strings.Join(drawn(t, busy(), 80, 40), "\n")
	for _, want := range []string{
		"fedpost at http://127.0.0.1:8080", "2026-11-22 12:00:00Z", "accepted             9       2.5", "delivered           10       1.5", "▁█\n",
		"normal               3         2         1  1m30s", "waiting     more than 10000 deliveries for servers", "servers     2 paused, 1 unhealthy",
		"unhealthy   a.example  since 2026-11-22 11:00:00Z  timeout: evil [2J",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
}

// TestWatchNamesNoEmptyReason of a server whose answers are the reason, and counts one
// delivery as one.
func TestWatchNamesNoEmptyReason(t *testing.T) {
	g := busy()
	g.stats.Unhealthy[0].Reason, g.stats.Unhealthy[0].Why = "", "answered 500 Internal Server Error"
	g.stats.Waiting.Count, g.stats.Waiting.AtLeast = 1, false
	if all := strings.Join(drawn(t, g, 100, 40), "\n"); !strings.Contains(all, "since 2026-11-22 11:00:00Z  answered 500") {
		t.Errorf("drawn is\n%s\nwithout the reason of the server", all)
	}
	var line strings.Builder
	if err := (lines{&line}).show(g); err != nil || !strings.Contains(line.String(), "  1 delivery waits for servers  ") {
		t.Error(err, line.String())
	}
}

// TestTheViewFitsEverySize: no line is wider, none is below the last, and no text of a
// stranger steers the terminal.
func TestTheViewFitsEverySize(t *testing.T) {
	g := busy()
	g.stats.Unhealthy[0].Why = strings.Repeat("答えがない e\u0301 🦀 ", 9)
	g.trouble = errors.New("no answer from fedpost at " + strings.Repeat("http://127.0.0.1:8080 ", 20))
	for width := 1; width < 140; width++ {
		for _, height := range []int{1, 5, 24, 60} {
			lines := drawn(t, g, width, height)
			if len(lines) > height {
				t.Fatalf("%d lines on %d", len(lines), height)
			}
			for _, line := range lines {
				if columns(line) > width || strings.Contains(line, "\x1b") {
					t.Fatalf("at %d columns there is %q", width, line)
				}
			}
		}
	}
}

// TestARateOfANewDayIsUnknown: counts begin anew at midnight.
func TestARateOfANewDayIsUnknown(t *testing.T) {
	g := busy()
	g.stats.Counts["delivered"] = 0
	if got := g.rate("delivered"); got != "-" {
		t.Errorf("fewer than before: %s", got)
	}
	g.before = nil
	if got := g.rate("accepted"); got != "-" {
		t.Errorf("the first look: %s", got)
	}
}

// looks answers one update after the other, and the last one again and again.
func looks(answers ...any) func(context.Context) (glance, error) {
	n := 0
	return func(context.Context) (glance, error) {
		a := answers[min(n, len(answers)-1)]
		n++
		if err, ok := a.(error); ok {
			return glance{}, err
		}
		return glance{stats: client.Stats{At: noon, Counts: map[string]int{"accepted": a.(int)}}}, nil
	}
}

// TestAWatchOutlivesAFedpostThatIsAway: the numbers stay, with the reason, until it is back.
func TestAWatchOutlivesAFedpostThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		away := errors.New("no answer\x1b[2J")
		w := watcher{every: time.Second, count: 4, look: looks(1, away, away, 5), show: lines{screen{w: &b}}}
		if err := w.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := strings.Split(b.String(), "\n")
		if len(got) != 5 || !strings.Contains(got[0], "1 accepted (-/s)") || got[1] != "no answer [2J" || got[2] != got[1] || !strings.Contains(got[3], "5 accepted") {
			t.Errorf("printed\n%s", &b)
		}
	})
}

// TestAWatchEndsWhereItIsRefused, at the first look and later.
func TestAWatchEndsWhereItIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := fmt.Errorf("fedpost answered %w", &client.Problem{Status: http.StatusUnauthorized, Title: "no token"})
		for name, look := range map[string]func(context.Context) (glance, error){"at once": looks(errors.New("no token")), "later": looks(1, refused)} {
			var b bytes.Buffer
			v := &view{screen: screen{w: &b}, size: func() (int, int, error) { return 80, 24, nil }}
			if err := (watcher{every: time.Second, look: look, show: v}).run(t.Context()); err == nil || !strings.Contains(err.Error(), "no token") {
				t.Errorf("%s: %v", name, err)
			}
			if strings.Count(b.String(), enterView) != strings.Count(b.String(), leaveView) {
				t.Errorf("%s: the terminal is left as %q", name, b.String())
			}
		}
	})
}

// TestAViewFollowsTheSizeOfItsTerminal between two updates, and leaves the terminal as it was.
func TestAViewFollowsTheSizeOfItsTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		var width atomic.Int64
		width.Store(80)
		v := &view{screen: screen{w: &b}, title: "here", size: func() (int, int, error) { return int(width.Load()), 24, nil }}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- watcher{every: time.Hour, look: looks(1), show: v}.run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(b.String(), home); n != 1 {
			t.Errorf("drawn %d times though nothing has changed", n)
		}
		width.Store(40)
		time.Sleep(resizeEvery)
		synctest.Wait()
		if n := strings.Count(b.String(), home); n != 2 {
			t.Errorf("drawn %d times after another size", n)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(b.String(), enterView) || !strings.HasSuffix(b.String(), leaveView) {
			t.Errorf("the terminal is left as %q", b.String())
		}
	})
}

// TestAPipeGetsALineALook, as text or as the API's reports.
func TestAPipeGetsALineALook(tt *testing.T) {
	tt.Parallel()
	t := onServer(tt)
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", "https://a.example/1", "--delay", "2d"})
	out := t.run([]string{"watch", "--count", "1"}, "1 accepted (-/s)  0 attempts (-/s)", "0 deliveries wait for servers")
	if strings.Count(out, "\n") != 1 || strings.Contains(out, "\x1b") {
		t.Errorf("printed %q", out)
	}
	var s client.Stats
	out = t.run([]string{"watch", "--count", "1", "--json"})
	if err := json.Unmarshal([]byte(out), &s); err != nil || s.Counts["accepted"] != 1 || s.Waiting == nil || strings.Count(out, "\n") != 1 {
		t.Errorf("%v, printed %q", err, out)
	}
	t.fails("--every 10ms is less than 1s", "watch", "--every", "10ms")
	t.fails("is not a duration", "watch", "--every", "soon")
}

// TestAWatchDoesWithoutAHistory, which AWS does not have, and asks for it no more.
func TestAWatchDoesWithoutAHistory(tt *testing.T) {
	asked := 0
	look := looker(caller.Of(tt, "http://127.0.0.1:1", caller.Through(roundTrip(func(r *http.Request) (int, string) {
		if r.URL.Path == "/v1/stats/history" {
			asked++
			return http.StatusNotFound, `{"status":404,"title":"Not Found"}`
		}
		return http.StatusOK, `{"at":"2026-11-22T12:00:00Z","counts":{"accepted":3}}`
	}))))
	for range 2 {
		if g, err := look(tt.Context()); err != nil || g.history != nil || g.stats.Counts["accepted"] != 3 {
			tt.Errorf("a look sees %+v, error %v; want 3 accepted and no history", g, err)
		}
	}
	if asked != 1 {
		tt.Errorf("the history was asked for %d times", asked)
	}
}

// roundTrip answers requests with a status and a body.
type roundTrip func(*http.Request) (int, string)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := f(r)
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}
