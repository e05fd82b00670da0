package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/fediverse"
)

// outage takes a host away, sends to the host until its deliveries are parked, and brings
// the host back. The host then gets every missed activity once.
func outage(t *testing.T, w *World) {
	const missed = 40
	host, other := w.Remote(), w.Remote()
	host.Down()
	var ids, activities []string
	for n := range missed {
		name := fmt.Sprintf("missed-%d", n)
		ids = append(ids, w.Send(note(name), host.URL(fmt.Sprintf("/users/%d/inbox", n%7)), other.URL("/inbox")))
		activities = append(activities, noteID(name))
	}
	for _, id := range ids {
		w.Ends(id, map[string]int{"parked": 1, "delivered": 1})
	}
	host.Up()
	for _, id := range ids {
		w.Ends(id, map[string]int{"delivered": 2})
	}
	accepted(t, host, activities...)
	accepted(t, other, activities...)
	w.Ends(w.Send(note("after"), host.URL("/inbox")), map[string]int{"delivered": 1})
	if host.Probes() == 0 {
		t.Error("the host was never asked whether it is back")
	}
}

// goneServer is a server that answers 410 at the shared inbox and to the check
// that follows. Nothing more is sent to any inbox of that server.
func goneServer(t *testing.T, w *World) {
	other := w.Remote()
	gone := w.RemoteBehind(func(inbox http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				rw.WriteHeader(http.StatusGone)
				return
			}
			inbox.ServeHTTP(rw, r)
		})
	})
	gone.Always(fediverse.Status(http.StatusGone))
	last := submission(note("last"), "", other.URL("/inbox"))
	last.Recipients = append(last.Recipients, client.Recipient{Inbox: gone.URL("/users/1/inbox"), SharedInbox: gone.URL("/inbox")})
	s := w.Ends(w.Accept(last).ID, map[string]int{"failed": 1, "delivered": 1})
	if r := recipient(t, s, gone.URL("/inbox")); r.LastStatus != http.StatusGone {
		t.Errorf("recipient %+v", r)
	}
	Await(t, w.Patience(30*time.Second), "the server to be known as gone", func() (bool, string) {
		phase := w.phase(gone)
		return phase == "gone", phase
	})
	// A process's knowledge of a host is a few seconds old at most.
	n := 0
	Await(t, w.Patience(30*time.Second), "deliver to know it, too", func() (bool, string) {
		n++
		before := len(gone.Posts())
		s = w.Ends(w.Send(note(fmt.Sprint("next", n)), gone.URL("/users/2/inbox"), other.URL("/inbox")), map[string]int{"failed": 1, "delivered": 1})
		return len(gone.Posts()) == before, fmt.Sprintf("%d POSTs after %d activities", len(gone.Posts()), 1+n)
	})
	if r := recipient(t, s, gone.URL("/users/2/inbox")); r.LastError == "" {
		t.Errorf("recipient %+v", r)
	}
}

// phase is the state of a server in the API, or why the API did not answer.
func (w *World) phase(r *Remote) string {
	w.t.Helper()
	var server client.Server
	if err := w.Do(w.t.Context(), "GET", "/v1/servers/"+escape(r.Host), nil, &server); err != nil {
		return err.Error()
	}
	return string(server.Phase)
}
