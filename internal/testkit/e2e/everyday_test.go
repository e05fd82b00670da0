package e2e

import (
	"strings"
	"testing"

	"fedpost/internal/testkit/fediverse"
)

// fourServers sends to a server that accepts, one that stumbles, one that is
// gone and one that hangs.
func fourServers(t *testing.T, w *World) {
	accepts, stumbles, gone, hangs := w.Remote(), w.Remote(), w.Remote(), w.Remote()
	stumbles.Then(fediverse.Status(503), fediverse.Status(503))
	gone.Always(fediverse.Status(410))
	hangs.Always(fediverse.Hang())
	a, s, g, h := accepts.URL("/inbox"), stumbles.URL("/inbox"), gone.URL("/inbox"), hangs.URL("/inbox")
	id := w.Send(fediverse.Fixture("mastodon-create-note"), a, s, g, h)
	status := w.Ends(id, map[string]int{"delivered": 2, "failed": 1, "parked": 1})
	if r := recipient(t, status, s); r.Attempts != 3 || r.LastStatus != 202 {
		t.Errorf("the server that stumbled twice: %+v", r)
	}
	if r := recipient(t, status, g); r.Attempts != 1 || r.LastStatus != 410 {
		t.Errorf("the server that is gone: %+v", r)
	}
	if r := recipient(t, status, h); r.State != "parked" || r.LastError == "" || r.Attempts < 3 || !strings.Contains("inbox:"+h, r.WaitsFor) || r.WaitsFor == "" || r.NextAttemptAt.IsZero() || !strings.Contains(r.Reason, "no answer in time") {
		t.Errorf("the recipient at the server that hangs is %+v, want it parked, with a reason that says no answer in time", r)
	}
	if n := len(gone.Posts()); n != 1 {
		t.Errorf("the server that is gone was asked %d times", n)
	}
	if n := len(accepts.Posts()); n != 1 {
		t.Errorf("the server that accepts got %d", n)
	}
}
