package local

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
)

func TestOnlyLoopbackNeedsNoToken(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:8080": true, "[::1]:8080": true, "127.9.9.9:1": true,
		"0.0.0.0:8080": false, ":8080": false, "[::]:8080": false, "10.0.0.1:80": false, "example.com:80": false, "nonsense": false,
	} {
		if got := loopbackName(address); got != ok {
			t.Errorf("loopbackName(%q) = %v", address, got)
		}
	}
	_, err := Start(Options{Listen: ListenConfig{Listen: "0.0.0.0:0"}, Log: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, ErrNotLoopback) || !strings.Contains(err.Error(), "FEDPOST_API_TOKEN") {
		t.Errorf("error %v, want one that names the setting", err)
	}
}

func TestItServesTheQueuesTheScheduleAndTheAPI(t *testing.T) {
	e, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	bodies, checked := make(chan string, 4), make(chan time.Duration, 100)
	s, err := Start(Options{
		Listen: ListenConfig{Listen: "127.0.0.1:0"}, Queue: e.Queue, Sweep: e.Sweep, Timeout: time.Minute, Every: time.Hour, Log: slog.New(slog.DiscardHandler),
		Services: Services{
			API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
			Deliver: func(_ context.Context, _ queue.Name, batch []queue.Received) ([]string, error) {
				for _, r := range batch {
					bodies <- r.Body
				}
				return nil, nil
			},
			HealthCheck: func(ctx context.Context) error {
				end, _ := ctx.Deadline()
				checked <- time.Until(end)
				return nil
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []queue.Name{queue.High, queue.Normal, queue.Low, queue.Ordered} {
		m := queue.Message{Body: string(name)}
		if name.Ordered() {
			m.OrderingKey, m.DeduplicationKey = "g", "d"
		}
		if err := e.Queue(name).Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for range 4 {
		seen[<-bodies] = true
	}
	if len(seen) != 4 {
		t.Errorf("served %v", seen)
	}
	if left := <-checked; left <= 0 || left > time.Minute {
		t.Errorf("a run of the schedule has %s, want less than a minute: the next waits for it", left)
	}
	resp, err := http.Get(s.URL + "/")
	if err != nil || resp.StatusCode != http.StatusTeapot {
		t.Errorf("GET: %v, %v", resp, err)
	} else if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
}
