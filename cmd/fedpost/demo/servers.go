package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"fedpost/client"
	"fedpost/cmd/fedpost/sink"
	"fedpost/internal/activity"
)

// sample is a remote server on loopback that misbehaves in one way, and the
// state in which a recipient there has to end.
type sample struct {
	name   string
	does   string
	want   activity.State
	inbox  string
	server *http.Server
}

// behaviour answers the n-th POST, counted from 1.
type behaviour func(w http.ResponseWriter, r *http.Request, n int64)

// samples starts the four servers. They verify signatures with the keys of the fedpost of c.
func samples(ctx context.Context, c *client.Client) ([]*sample, error) {
	all := []struct {
		name, does string
		want       activity.State
		answer     behaviour
	}{
		{"accept", "answers 202", activity.Delivered, func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.WriteHeader(http.StatusAccepted)
		}},
		{"stumble", "answers 503 twice, then 202", activity.Delivered, func(w http.ResponseWriter, _ *http.Request, n int64) {
			if n <= 2 {
				http.Error(w, "back in a moment", http.StatusServiceUnavailable)
				return
			}
			w.WriteHeader(http.StatusAccepted)
		}},
		{"gone", "answers 410", activity.Failed, func(w http.ResponseWriter, _ *http.Request, _ int64) {
			http.Error(w, "this actor has been deleted", http.StatusGone)
		}},
		{"hang", "never answers", activity.Parked, func(_ http.ResponseWriter, r *http.Request, _ int64) {
			select {
			case <-r.Context().Done():
			case <-ctx.Done():
			}
		}},
	}
	started := make([]*sample, 0, len(all))
	for _, s := range all {
		one, err := start(c, s.name, s.does, s.want, s.answer)
		if err != nil {
			stop(started)
			return nil, fmt.Errorf("start sample server %s: %w", s.name, err)
		}
		started = append(started, one)
	}
	return started, nil
}

func start(c *client.Client, name, does string, want activity.State, answer behaviour) (*sample, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sample{name: name, does: does, want: want, inbox: "http://" + listener.Addr().String() + "/inbox"}
	var posts atomic.Int64
	inbox := sink.Inbox{Key: sink.KeysOf(c), Now: time.Now, Answer: func(w http.ResponseWriter, r *http.Request, _ sink.Post) {
		answer(w, r, posts.Add(1))
	}}
	s.server = &http.Server{Handler: inbox, ReadHeaderTimeout: 5 * time.Second}
	// Serve returns ErrServerClosed at the end of the demo. Any other error shows in the outcome of
	// the demo.
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

func stop(servers []*sample) {
	for _, s := range servers {
		s.server.Close()
	}
}
