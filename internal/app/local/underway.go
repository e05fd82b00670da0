package local

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
)

// underway counts the work under way, so that a stop can say what it cuts off.
type underway struct {
	inRequests atomic.Int64
	inMessages map[queue.Name]*atomic.Int64
}

func newUnderway() *underway {
	u := &underway{inMessages: map[queue.Name]*atomic.Int64{}}
	for _, name := range topology.Sources {
		u.inMessages[name] = new(atomic.Int64)
	}
	return u
}

func (u *underway) requests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.inRequests.Add(1)
		defer u.inRequests.Add(-1)
		next.ServeHTTP(w, r)
	})
}

// messages counts the messages that a handler works on.
func (u *underway) messages(next Handler) Handler {
	return func(ctx context.Context, from queue.Name, batch []queue.Received) ([]string, error) {
		n := u.inMessages[from]
		n.Add(int64(len(batch)))
		defer n.Add(-int64(len(batch)))
		return next(ctx, from, batch)
	}
}

// String says what is under way.
func (u *underway) String() string {
	var parts []string
	if n := u.inRequests.Load(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of the API's requests", n))
	}
	for _, name := range topology.Sources {
		if n := u.inMessages[name].Load(); n > 0 {
			parts = append(parts, fmt.Sprintf("%d of the messages of the queue %s, which are received again after the next start", n, name))
		}
	}
	if len(parts) == 0 {
		return "connections, or a run of the schedule"
	}
	return strings.Join(parts, "; ")
}
