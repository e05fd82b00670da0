package sipher_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/testkit/sipherpeer"
)

func TestIDsAndDelaysOfChecksMatchTheVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Jobs []struct {
			ServerURL string `json:"serverUrl"`
			Attempt   int    `json:"attempt"`
			ID        string `json:"jobId"`
			Delay     int64  `json:"delay_ms"`
		} `json:"health_check_jobs"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Jobs) == 0 {
		t.Fatal("no vectors")
	}
	for _, j := range v.Jobs {
		c := peers.Check{ServerURL: j.ServerURL, Attempt: j.Attempt}
		if c.ID() != j.ID || peers.CheckDelay(j.Attempt).Milliseconds() != j.Delay {
			t.Errorf("%s after %s, want %s after %d ms", c.ID(), peers.CheckDelay(j.Attempt), j.ID, j.Delay)
		}
	}
}

// down makes B unhealthy by a failed delivery.
func (b *bed) down() {
	b.t.Helper()
	b.acquainted(b.b)
	b.net.Fail(urlB, dialError(errRefused))
	if o := b.attempt(postJob(), 1); o.Class != outcome.Retry {
		b.t.Fatalf("the outcome is %+v, want a retry", o)
	}
}

// run is what a run of checks did: how many servers it asked, and how many are healthy again, or exhausted.
type run struct{ asked, healthy, exhausted int }

func (b *bed) check() run {
	b.t.Helper()
	r := run{asked: -len(b.net.Asked())}
	before := map[string]peers.Server{}
	for _, s := range b.servers() {
		before[s.URL] = s
	}
	if err := b.proto.Check(b.t.Context(), b.Now()); err != nil {
		b.t.Fatal(err)
	}
	for _, s := range b.servers() {
		if s.IsHealthy && !before[s.URL].IsHealthy {
			r.healthy++
		}
		if s.Exhausted && !before[s.URL].Exhausted {
			r.exhausted++
		}
	}
	r.asked += len(b.net.Asked())
	return r
}

func (b *bed) servers() []peers.Server {
	b.t.Helper()
	all, err := b.store.Servers(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// due are the checks of the next day.
func (b *bed) due() []peers.Check {
	b.t.Helper()
	due, err := b.store.DueChecks(b.t.Context(), b.Now().Add(24*time.Hour), 1000)
	if err != nil {
		b.t.Fatal(err)
	}
	return due
}

func TestFiveChecksWithLinearDelaysThenExhausted(t *testing.T) {
	b := newBed(t)
	b.down()
	for n := range peers.MaxChecks {
		wait := time.Duration(5+10*n) * time.Minute
		b.advance(wait - time.Second)
		if got := b.check(); got != (run{}) {
			t.Fatalf("check %d was run early: %+v", n, got)
		}
		b.advance(time.Second)
		got := b.check()
		wanted := run{asked: 1}
		if n == peers.MaxChecks-1 {
			wanted.exhausted = 1
		}
		if got != wanted {
			t.Errorf("check %d: %+v", n, got)
		}
		if s := b.server(urlB); s.Attempts != n+1 || s.IsHealthy || s.Reason != peers.ConnRefused {
			t.Errorf("after check %d: %+v", n, s)
		}
	}
	if len(b.logged("sipher health checks exhausted")) != 1 {
		t.Error("exhaustion is not warned of")
	}
	b.advance(24 * time.Hour)
	if got := b.check(); got != (run{}) {
		t.Errorf("checked after exhaustion: %+v", got)
	}
	// The next delivery that fails begins anew.
	b.attempt(postJob(), 1)
	b.advance(5 * time.Minute)
	if got := b.check(); got != (run{asked: 1}) || b.server(urlB).Attempts != 1 {
		t.Errorf("the check reports %+v, and the server is %+v; want 1 checked, and 1 attempt", got, b.server(urlB))
	}
}

func TestServerThatAnswersIsHealthyAgain(t *testing.T) {
	b := newBed(t)
	b.down()
	b.advance(5 * time.Minute)
	b.check()
	b.net.Join(b.b)
	b.advance(15 * time.Minute)
	if got := b.check(); got != (run{asked: 1, healthy: 1}) {
		t.Errorf("the check reports %+v, want 1 checked and healthy", got)
	}
	s := b.server(urlB)
	if !s.IsHealthy || s.Reason != "" || s.Attempts != 0 || !s.LastSeen.Equal(b.Now()) {
		t.Errorf("the server is %+v, want healthy and seen now", s)
	}
	if got := b.b.Sequence(); !slices.Equal(got, []string{"GET /discover"}) {
		t.Errorf("B saw %v", got)
	}
	b.advance(24 * time.Hour)
	if got := b.check(); got != (run{}) {
		t.Errorf("checked a healthy server: %+v", got)
	}
}

func TestAnAnswerOtherThan2xxIsAFailedCheck(t *testing.T) {
	b := newBed(t)
	b.down()
	b.net.Join(b.b)
	b.b.Discover(sipherpeer.Discovery{Status: 503})
	b.advance(5 * time.Minute)
	if got := b.check(); got != (run{asked: 1}) || b.server(urlB).Attempts != 1 {
		t.Errorf("the check reports %+v, and the server has %d attempts; want 1 checked, and 1 attempt", got, b.server(urlB).Attempts)
	}
}

func TestChecksAreSkippedWithoutError(t *testing.T) {
	for name, prepare := range map[string]func(b *bed){
		"server unknown": func(*bed) {},
		"server healthy": func(b *bed) { b.acquainted(b.b) },
		"not checkable": func(b *bed) {
			b.insert(b.b, func(s *peers.Server) { s.IsHealthy, s.Reason = false, peers.DNSBlocked })
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			prepare(b)
			if _, err := b.store.ScheduleCheck(t.Context(), peers.Check{ServerURL: urlB, DueAt: b.Now()}); err != nil {
				t.Fatal(err)
			}
			if got := b.check(); got != (run{}) || len(b.net.Asked()) > 0 || len(b.due()) > 0 {
				t.Errorf("%+v, asked %v, left %v", got, b.net.Asked(), b.due())
			}
		})
	}
}

func TestPolicyOverrideAllowsAndForbidsChecks(t *testing.T) {
	for override, wanted := range map[string]run{
		`{"TIMEOUT":{"directHealthCheckable":false}}`: {},
		`{"TIMEOUT":{"proxyEligible":true}}`:          {asked: 1, healthy: 1},
	} {
		b := newBed(t, policies(t, override))
		b.insert(b.b, func(s *peers.Server) { s.IsHealthy, s.Reason = false, peers.TimedOut })
		if _, err := b.store.ScheduleCheck(t.Context(), peers.Check{ServerURL: urlB, DueAt: b.Now()}); err != nil {
			t.Fatal(err)
		}
		if got := b.check(); got != wanted || len(b.due()) > 0 {
			t.Errorf("%s: %+v, left %v", override, got, b.due())
		}
	}
}

func TestAHundredFailuresScheduleOneCheck(t *testing.T) {
	b := newBed(t)
	b.acquainted(b.b)
	b.net.Fail(urlB, dialError(errRefused))
	// None goes on before all have begun, so that each finds a healthy server and
	// reports a failure of its own.
	var begun, ended sync.WaitGroup
	begun.Add(100)
	var failed atomic.Int32
	for range 100 {
		ended.Go(func() {
			begun.Done()
			begun.Wait()
			if o := b.proto.Attempt(t.Context(), postJob(), target(postJob()), 1); o.Class == outcome.Retry {
				failed.Add(1)
			}
		})
	}
	ended.Wait()
	if failed.Load() != 100 || len(b.net.Asked()) < 2 {
		t.Errorf("%d of 100 failed, %d by asking the server", failed.Load(), len(b.net.Asked()))
	}
	due, err := b.store.DueChecks(t.Context(), b.Now().Add(24*time.Hour), 1000)
	if err != nil || len(due) != 1 {
		t.Fatalf("%d checks, %v", len(due), err)
	}
	if want := b.Now().Add(5 * time.Minute); due[0].ServerURL != urlB || due[0].Attempt != 0 || !due[0].DueAt.Equal(want) {
		t.Errorf("%+v, want the first check of %s at %s", due[0], urlB, want)
	}
}

func TestOverlappingRunsMakeOneCheckOfIt(t *testing.T) {
	b := newBed(t)
	b.down()
	b.advance(5 * time.Minute)
	before := len(b.net.Asked())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := b.proto.Check(t.Context(), b.Now()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(b.net.Asked()) - before; n != 1 || b.server(urlB).Attempts != 1 {
		t.Errorf("%d checks, %+v", n, b.server(urlB))
	}
}

func TestARunThatDiesIsRepeatedAfterItsLease(t *testing.T) {
	b := newBed(t)
	b.down()
	b.advance(5 * time.Minute)
	broken := sipherWith(b, &outage{Store: b.store, verb: "CountCheck", err: fmt.Errorf("table is down")})
	if err := broken.Check(t.Context(), b.Now()); err == nil {
		t.Error("the outage is not reported")
	}
	if got := b.check(); got != (run{}) {
		t.Errorf("taken up while the lease runs: %+v", got)
	}
	b.advance(time.Minute)
	if got := b.check(); got != (run{asked: 1}) || b.server(urlB).Attempts != 1 {
		t.Errorf("the check reports %+v, and the server is %+v; want 1 checked, and 1 attempt", got, b.server(urlB))
	}
}

func TestACrashBeforeTheNextScheduleLosesNoCheck(t *testing.T) {
	b := newBed(t)
	b.down()
	b.advance(5 * time.Minute)
	broken := sipherWith(b, &outage{Store: b.store, verb: "ScheduleCheck", err: fmt.Errorf("table is down")})
	if err := broken.Check(t.Context(), b.Now()); err == nil {
		t.Error("the outage is not reported")
	}
	b.advance(time.Minute)
	b.check()
	due, err := b.store.DueChecks(t.Context(), b.Now().Add(24*time.Hour), 10)
	if err != nil || len(due) != 1 || due[0].Attempt != 2 {
		t.Errorf("due are %+v, error %v; want one check with 2 attempts", due, err)
	}
}

func TestACheckThatIsNextToItselfStaysScheduled(t *testing.T) {
	// The count was reset while check 1 was waiting: its failure makes it number
	// 1 again, and it must not be mistaken for itself and dropped.
	b := newBed(t)
	b.insert(b.b, func(s *peers.Server) { s.IsHealthy, s.Reason = false, peers.TimedOut })
	b.net.Fail(urlB, dialError(errRefused))
	if _, err := b.store.ScheduleCheck(t.Context(), peers.Check{ServerURL: urlB, Attempt: 1, DueAt: b.Now()}); err != nil {
		t.Fatal(err)
	}
	b.check()
	due, err := b.store.DueChecks(t.Context(), b.Now().Add(24*time.Hour), 10)
	if err != nil || len(due) != 1 || due[0].Attempt != 1 || !due[0].DueAt.Equal(b.Now().Add(15*time.Minute)) {
		t.Errorf("due are %+v, error %v; want one check with 1 attempt in 15 minutes", due, err)
	}
}

// counting answers for any server and records how many were asked at once.
type counting struct {
	mu      sync.Mutex
	now     int
	most    int
	arrived chan struct{}
	release chan struct{}
}

func (c *counting) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	c.arrived <- struct{}{}
	<-c.release
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
	// The test has gone if this fails.
	_, _ = io.WriteString(w, "{}")
}

func TestProbesRunThreeAtATimeUnlessConfigured(t *testing.T) {
	for configured, wanted := range map[int]int{0: 3, 5: 5} {
		b := newBed(t, func(c *sipher.Config) { c.Probes = configured })
		const servers = 12
		c := &counting{arrived: make(chan struct{}, servers), release: make(chan struct{})}
		for i := range servers {
			url := fmt.Sprintf("https://s%d.example", i)
			b.net.Serve(url, c)
			b.insert(b.b, func(s *peers.Server) { s.URL, s.IsHealthy, s.Reason = url, false, peers.TimedOut })
			if _, err := b.store.ScheduleCheck(t.Context(), peers.Check{ServerURL: url, DueAt: b.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error)
		go func() { done <- b.proto.Check(context.WithoutCancel(t.Context()), b.Now()) }()
		for range wanted {
			<-c.arrived
		}
		close(c.release)
		err := <-done
		down := slices.DeleteFunc(b.servers(), func(s peers.Server) bool { return s.IsHealthy })
		if err != nil || len(down) > 0 || c.most != wanted {
			t.Errorf("error %v, down %v, %d at once, want %d", err, down, c.most, wanted)
		}
	}
}

func TestProbeTimesOutAfter8Seconds(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *bed) {
		b.insert(b.b, func(s *peers.Server) { s.IsHealthy, s.Reason = false, peers.TimedOut })
		b.net.Hang(urlB)
		if _, err := b.store.ScheduleCheck(t.Context(), peers.Check{ServerURL: urlB, DueAt: b.Now()}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if got := b.check(); got != (run{asked: 1}) || time.Since(began) != 8*time.Second {
			t.Errorf("%+v in %s", got, time.Since(began))
		}
	})
}

func TestARunStopsBeforeItsDeadline(t *testing.T) {
	b := newBed(t)
	b.down()
	b.advance(5 * time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // less than a check may take
	defer cancel()
	before := len(b.net.Asked())
	if err := b.proto.Check(ctx, b.Now()); err != nil || len(b.net.Asked()) != before {
		t.Errorf("asked %v, error %v; want nothing checked", b.net.Asked()[before:], err)
	}
	if got := b.check(); got.asked != 1 {
		t.Errorf("what was left is not run next: %+v", got)
	}
}

func TestStoreOutageIsReportedByTheRun(t *testing.T) {
	b := newBed(t)
	b.down()
	b.advance(5 * time.Minute)
	for _, verb := range []string{"DueChecks", "Server"} {
		broken := sipherWith(b, &outage{Store: b.store, verb: verb, err: fmt.Errorf("table is down")})
		if err := broken.Check(t.Context(), b.Now()); err == nil {
			t.Errorf("%s: no error", verb)
		}
		b.advance(2 * time.Minute)
	}
}

func TestNewErrorsWhileAServerIsCheckedLeaveItScheduled(t *testing.T) {
	b := newBed(t)
	b.down()
	b.advance(5 * time.Minute)
	// While check 0 asks, a delivery fails and wants check 0 again.
	b.net.Serve(urlB, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b.net.Fail(urlB, dialError(errRefused))
		if o := b.proto.Attempt(t.Context(), postJob(), target(postJob()), 2); o.Reason != outcome.ConnRefused {
			t.Errorf("the outcome is %+v, want a refused connection", o)
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	b.check()
	due, err := b.store.DueChecks(t.Context(), b.Now().Add(24*time.Hour), 10)
	if err != nil || len(due) != 1 || due[0].Attempt != 1 {
		t.Errorf("due are %+v, error %v; want one check with 1 attempt", due, err)
	}
}
