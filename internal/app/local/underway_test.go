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

// TestAStopSaysWhatItCutsOff, and does not wait longer than it may.
func TestAStopSaysWhatItCutsOff(t *testing.T) {
	e, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	begun, release := make(chan struct{}, 3), make(chan struct{})
	s, err := Start(Options{
		Listen: ListenConfig{Listen: "127.0.0.1:0"}, Queue: e.Queue, Timeout: time.Minute, Every: time.Hour, Log: slog.New(slog.DiscardHandler),
		Services: Services{
			API: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { begun <- struct{}{}; <-release }),
			Deliver: func(context.Context, queue.Name, []queue.Received) ([]string, error) {
				begun <- struct{}{}
				<-release
				return nil, nil
			},
			HealthCheck: func(context.Context) error { return nil },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Queue(queue.Low).Send(t.Context(), queue.Message{Body: "slow"}); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		r, err := http.Get(s.URL)
		if err == nil {
			err = r.Body.Close()
		}
		answered <- err
	}()
	<-begun
	<-begun
	over, cancel := context.WithCancel(t.Context())
	cancel()
	err = s.Stop(over)
	if !errors.Is(err, ErrCutOff) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 of the API's requests; 1 of the messages of the queue low, which are received again") {
		t.Errorf("the stop says %v", err)
	}
	close(release)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("when nothing is under way, the stop says %v", err)
	}
	if got := s.under.String(); got != "connections, or a run of the schedule" {
		t.Errorf("still under way: %s", got)
	}
}
