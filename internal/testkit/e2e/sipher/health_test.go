package sipher_test

import (
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/protocol/sipher/peers"
)

var refusedConnection = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

func TestChecksRunOnScheduleUntilTheyAreExhausted(t *testing.T) {
	runWith(t, options{messages: 10}, func(t *testing.T, w *world) {
		w.acquainted(w.b)
		w.net.Fail(urlB, refusedConnection)
		begin := time.Now()
		w.ends(w.send(postJob()))
		if s := w.server(urlB); s.Phase != client.PhaseUnhealthy || s.Reason != string(peers.ConnRefused) || s.Checks != 0 {
			t.Errorf("server: %s", brief(s))
		}
		before := len(w.net.Asked())
		var at []time.Duration
		for time.Since(begin) < 4*time.Hour {
			pass(time.Minute)
			if n := len(w.net.Asked()); n > before {
				before = n
				at = append(at, time.Since(begin).Truncate(time.Minute))
			}
		}
		// 5, 15, 25, 35 and 45 minutes after one another.
		if want := seconds(5*60, 20*60, 45*60, 80*60, 125*60); !near(at, want) {
			t.Errorf("checked after %v, want %v", at, want)
		}
		if s := w.server(urlB); s.Phase != client.PhaseExhausted || s.Checks != 5 {
			t.Errorf("server: %s", brief(s))
		}
		if lines := w.logged("sipher health checks exhausted"); len(lines) != 1 || lines[0]["level"] != "WARN" || lines[0]["server"] != urlB {
			t.Errorf("the log says %v; want one warning of %s", lines, urlB)
		}
	})
}

// near allows for the schedule's minute at each step.
func near(got, want []time.Duration) bool {
	return slices.EqualFunc(got, want, func(g, w time.Duration) bool {
		return g >= w && g <= w+7*time.Minute
	})
}

func TestAServerThatIsBackIsHealthyAgainAndDelivered(t *testing.T) {
	runWith(t, options{messages: 10}, func(t *testing.T, w *world) {
		w.acquainted(w.b)
		w.net.Fail(urlB, refusedConnection)
		w.ends(w.send(postJob()))
		w.net.Join(w.b)
		pass(4 * time.Minute)
		if s := w.server(urlB); s.Phase != client.PhaseHealthy {
			t.Errorf("server: %s", brief(s))
		}
		if got := w.b.Sequence(); !slices.Equal(got, []string{"GET /discover"}) {
			t.Errorf("B saw %v", got)
		}
		if r := w.ends(w.send(nthPost(2))); r.State != "delivered" {
			t.Errorf("recipient: %s", brief(r))
		}
	})
}

func TestAHundredFailuresAreOneCheck(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.acquainted(w.b)
		w.net.Fail(urlB, refusedConnection)
		var ids []string
		for n := range 100 {
			ids = append(ids, w.send(nthPost(n)))
		}
		for _, id := range ids {
			if r := w.ends(id); r.State != "dead" || r.Attempts != 5 {
				t.Errorf("recipient: %s", brief(r))
			}
		}
		pass(15 * time.Minute)
		checks := 0
		for _, asked := range w.net.Asked() {
			if asked == askB {
				checks++
			}
		}
		if checks != 1 {
			t.Errorf("%d checks", checks)
		}
	})
}

func TestAnOperatorBlocksAndUnblocksASipherServer(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.acquainted(w.b)
		path := "/v1/servers/" + "https%3A%2F%2Fb.example"
		do := func(what string) {
			t.Helper()
			if err := w.Do(t.Context(), http.MethodPost, path+what, []byte(`{}`), nil); err != nil {
				t.Fatal(err)
			}
		}
		do("/block")
		if s := w.server(urlB); s.Phase != client.PhaseBlocked {
			t.Errorf("server: %s", brief(s))
		}
		if r := w.ends(w.send(nthPost(1))); r.State != "failed" || r.Attempts != 0 {
			t.Errorf("recipient: %s", brief(r))
		}
		if status, _, err := w.b.RegisterWith(urlA); err != nil || status != http.StatusForbidden {
			t.Errorf("a blocked server registered: %d, %v", status, err)
		}
		do("/unblock")
		if r := w.ends(w.send(nthPost(2))); r.State != "delivered" {
			t.Errorf("recipient: %s", brief(r))
		}
	})
}

func TestAServerThatPresentsANewKeyIsRefusedAndShownToTheOperator(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.acquainted(w.b)
		pinned := w.server(urlB).Keys
		w.b.Rotate(t)
		if status, _, err := w.b.RegisterWith(urlA); err != nil || status != http.StatusBadRequest {
			t.Errorf("registered: %d, %v", status, err)
		}
		s := w.server(urlB)
		if *s.Keys != *pinned || s.RefusedKeys == nil || s.RefusedKeys.Signing != w.b.PublicKey() || s.RefusedKeys.Count != 1 {
			t.Errorf("server: %s", brief(s))
		}
		if err := w.Do(t.Context(), http.MethodGet, "/v1/servers/https%3A%2F%2FB.example%3A443%2F", nil, nil); err != nil {
			t.Errorf("another spelling is the same server: %v", err)
		}
	})
}
