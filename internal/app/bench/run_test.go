package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/caller"
)

// fake is a fedpost that delivers at once, as its hook wants.
type fake struct {
	t  *testing.T
	mu sync.Mutex
	// seen counts the deliveries after the first activity; keys has the answers by key.
	seen int
	keys map[string]string
	// deliver sends a body to an inbox; n is the number of the delivery. nil: as it should be.
	deliver func(f *fake, n int, inbox string, body []byte)
	ignore  bool // deduplication keys
	pid     int  // whose processor time is measured; 0: nobody's
	giveUp  func()
}

func (f *fake) post(inbox string, body []byte) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, inbox, bytes.NewReader(body))
	if err != nil {
		f.t.Error(err)
		return
	}
	r.Header.Set("Signature", "x")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return // the servers were closed
	}
	_ = res.Body.Close()
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v1/keys":
		fmt.Fprint(w, `{"id":"k","type":"rsa"}`)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		f.accept(w, r)
	}
}

func (f *fake) accept(w http.ResponseWriter, r *http.Request) {
	var s struct {
		Activity         json.RawMessage
		Recipients       []string
		DeduplicationKey string
	}
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
		f.t.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if id, ok := f.keys[s.DeduplicationKey]; ok && s.DeduplicationKey != "" && !f.ignore {
		fmt.Fprintf(w, `{"id":%q,"status":"duplicate","recipients":%d}`, id, len(s.Recipients))
		return
	}
	if f.keys == nil {
		f.keys = map[string]string{}
	}
	id := fmt.Sprint(f.seen)
	f.keys[s.DeduplicationKey] = id
	for _, inbox := range s.Recipients {
		f.seen++
		if f.deliver == nil || f.seen == 1 {
			f.post(inbox, s.Activity)
			continue
		}
		f.deliver(f, f.seen, inbox, s.Activity)
	}
	fmt.Fprintf(w, `{"id":%q,"status":"queued","recipients":%d}`, id, len(s.Recipients))
}

// measured runs a plan against f, until f gives up.
func measured(t *testing.T, f *fake, p Plan) Result {
	t.Helper()
	f.t = t
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	sinks, err := NewSinks(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sinks.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f.giveUp = cancel
	r, err := Run(ctx, caller.Of(t, server.URL, client.HTTPClient(Caller(p))), f.pid, sinks, Units{1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEachMixIsMeasured(t *testing.T) {
	for _, m := range Mixes {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			r := measured(t, &fake{}, small(m))
			if len(r.Faults) > 0 || r.Deliveries != 60 || r.PerSecond <= 0 || r.Seconds <= 0 || r.Accepting.Max <= 0 || r.Arriving.P50 <= 0 || r.Connections == 0 {
				t.Errorf("measured %+v", r)
			}
			if err := (Report{Results: []Result{r}}).Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAnActivityBesideIsPartOfTheWork: the run ends when its deliveries have come, too, which
// are the last here.
func TestAnActivityBesideIsPartOfTheWork(t *testing.T) {
	for _, m := range Mixes {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			p := small(m)
			p.Beside = 20
			var beside sync.WaitGroup
			t.Cleanup(beside.Wait)
			others, seen := make(chan struct{}), 0
			f := &fake{deliver: func(f *fake, n int, inbox string, body []byte) {
				if bytes.Contains(body, fmt.Appendf(nil, "/%d\"", p.Activities)) {
					seen++
					beside.Go(func() { <-others; f.post(inbox, body) })
					return
				}
				f.post(inbox, body)
				if n == 1+p.Beside+p.Activities*p.Recipients {
					close(others)
				}
			}}
			r := measured(t, f, p)
			if len(r.Faults) > 0 || r.Deliveries != 80 || seen != 20 {
				t.Errorf("%d deliveries, %d of them beside, faults %v; want 80 and 20", r.Deliveries, seen, r.Faults)
			}
		})
	}
}

func TestTheTimesOfAnActivityBesideDoNotCount(t *testing.T) {
	b := newBook(Plan{Mix: Single, Activities: 2, Recipients: 1, Beside: 3, Hosts: 1})
	ms := func(n int64) int64 { return n * int64(time.Millisecond) }
	for activity, times := range [][2]int64{{100, 110}, {100, 130}, {1, 2}} {
		b.begun[activity].Store(ms(times[0]))
		b.answered[activity].Store(ms(times[1]))
	}
	for at, d := range [][3]int64{{0, 0, 120}, {1, 0, 125}, {2, 0, 5000}, {2, 1, 6000}, {2, 2, 7000}} {
		b.take(int(d[0]), int(d[1]), 0, time.Unix(0, ms(d[2])))
		select {
		case <-b.done:
			if at != 4 {
				t.Errorf("the account ends with delivery %d", at)
			}
		default:
		}
	}
	if got, want := b.after(b.begun), (Spread{P50: 0.020, P90: 0.025, P99: 0.025, Max: 0.025}); got != want {
		t.Errorf("after the calls %+v, want %+v", got, want)
	}
	// The second came before its answer.
	if got, want := b.after(b.answered), (Spread{P50: 0, P90: 0.010, P99: 0.010, Max: 0.010}); got != want {
		t.Errorf("after the answers %+v, want %+v", got, want)
	}
	if faults := b.close(); len(faults) > 0 {
		t.Errorf("faults %v, want none", faults)
	}
}

func TestServersGetAnActivityBeforeAndHangUpAsPlanned(t *testing.T) {
	t.Parallel()
	p := small(FanOut)
	p.Known, p.HangUp, p.Sick = true, true, 0.2 // the last of 5 servers is sick
	var hanging sync.WaitGroup
	t.Cleanup(hanging.Wait) // the last of the clean-ups, when the servers are closed
	f := &fake{}
	var before []string
	f.deliver = func(f *fake, n int, inbox string, body []byte) {
		if n <= 4 {
			before = append(before, inbox[strings.LastIndexByte(inbox, '/'):])
			f.post(inbox, body)
			return
		}
		hanging.Go(func() { f.post(inbox, body) })
	}
	r := measured(t, f, p)
	if len(r.Faults) > 0 || r.Deliveries != 48 || f.seen != 64 || strings.Join(before, "") != "/1/2/3" {
		t.Errorf("%d deliveries measured, %d in all, %v among the first, faults %v", r.Deliveries, f.seen, before, r.Faults)
	}
	if r.Connections < r.Deliveries {
		t.Errorf("%d connections for %d deliveries", r.Connections, r.Deliveries)
	}
}

func TestARateIsKept(t *testing.T) {
	t.Parallel()
	p := small(Single)
	p.Recipients, p.Rate = 1, 100
	if r := measured(t, &fake{}, p); r.Seconds < 0.19 || len(r.Faults) > 0 {
		t.Errorf("20 calls at 100 a second took %.3f s: %v", r.Seconds, r.Faults)
	}
}

func TestWhatTheServerUsesIsMeasured(t *testing.T) {
	t.Parallel()
	pid := os.Getpid()
	if _, known := processor(pid); !known {
		t.Skip("this system does not say what a process uses")
	}
	server := &fake{pid: pid, deliver: func(f *fake, _ int, inbox string, body []byte) {
		f.post(inbox, body)
		if f.seen > 2 {
			return
		}
		// The kernel counts in hundredths of a second, and a small run may take less.
		for before, _ := processor(pid); ; {
			if used, _ := processor(pid); used > before {
				return
			}
		}
	}}
	r := measured(t, server, small(FanOut))
	if r.Server == nil || r.Server.Processor <= 0 || r.Server.Memory <= 0 {
		t.Errorf("measured %+v of the server", r.Server)
	}
}

// TestNoFaultGoesUnnoticed loses, doubles, swaps and changes deliveries, leaves them unsigned and
// sends them to the wrong recipient.
func TestNoFaultGoesUnnoticed(t *testing.T) {
	var held func()
	faults := map[string]struct {
		mix     Mix
		deliver func(f *fake, n int, inbox string, body []byte)
		want    string
	}{
		"lost": {FanOut, func(f *fake, n int, inbox string, body []byte) {
			if n != 9 {
				f.post(inbox, body)
			}
			if n == 61 {
				f.giveUp()
			}
		}, "1 of 60 deliveries have not arrived"},
		"doubled": {FanOut, func(f *fake, n int, inbox string, body []byte) {
			if f.post(inbox, body); n == 9 {
				f.post(inbox, body)
			}
		}, "2 times"},
		"changed": {FanOut, func(f *fake, n int, inbox string, body []byte) {
			if n == 9 {
				f.post(inbox, bytes.Replace(body, []byte("&amp;"), []byte("&amP;"), 1))
			}
			f.post(inbox, body)
		}, "was changed on its way"},
		"misdirected": {FanOut, func(f *fake, n int, inbox string, body []byte) {
			if n == 9 {
				f.post(inbox[:strings.LastIndex(inbox, "/")]+"/77", body)
			}
			f.post(inbox, body)
		}, "not of this run"},
		"swapped": {Ordered, func(f *fake, n int, inbox string, body []byte) {
			if n == 2 {
				held = func() { f.post(inbox, body) }
				return
			}
			if f.post(inbox, body); n == 60 {
				held()
			}
		}, "of the same ordering key"},
	}
	for name, c := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := small(c.mix)
			p.Callers = 1
			r := measured(t, &fake{deliver: c.deliver}, p)
			if all := strings.Join(r.Faults, "; "); !strings.Contains(all, c.want) {
				t.Errorf("faults %q, want %q", all, c.want)
			}
			if err := (Report{Results: []Result{r}}).Err(); !errors.Is(err, ErrFaults) {
				t.Errorf("the report says %v", err)
			}
		})
	}
}

func TestAKeyThatIsIgnoredIsAFault(t *testing.T) {
	t.Parallel()
	r := measured(t, &fake{ignore: true}, small(Keyed))
	if all := strings.Join(r.Faults, "; "); !strings.Contains(all, "no duplicate") {
		t.Errorf("faults %q", all)
	}
}

func TestServersThatHangAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	p := small(FanOut)
	p.Sick = 0.4
	var hanging sync.WaitGroup
	t.Cleanup(hanging.Wait) // the last of the clean-ups, when the servers are closed
	r := measured(t, &fake{deliver: func(f *fake, _ int, inbox string, body []byte) {
		hanging.Go(func() { f.post(inbox, body) })
	}}, p)
	if r.Deliveries != 36 || len(r.Faults) > 0 {
		t.Errorf("%d deliveries, faults %v", r.Deliveries, r.Faults)
	}
}

func TestAFirstActivityThatDoesNotArriveEndsTheRun(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"id":"k","status":"queued","recipients":1}`)
	}))
	defer server.Close()
	p := small(Single)
	sinks, err := NewSinks(p)
	if err != nil {
		t.Fatal(err)
	}
	defer sinks.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, caller.Of(t, server.URL), 0, sinks, Units{1}); err == nil || !strings.Contains(err.Error(), "did not arrive") {
		t.Errorf("error %v", err)
	}
}

func TestServersSpeakTLS(t *testing.T) {
	p := small(Single)
	p.TLS, p.HTTP2 = true, true
	s, err := NewSinks(p)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if len(s.CA) == 0 || !strings.HasPrefix(s.Inbox(0, 0), "https://") {
		t.Errorf("inbox %s, %d bytes of a certificate", s.Inbox(0, 0), len(s.CA))
	}
	if _, err := NewSinkAt(p, "127.0.0.1:0", "https://x.example"); !errors.Is(err, ErrPlan) {
		t.Errorf("error %v", err)
	}
	p.TLS, p.HTTP2, p.Hosts = false, false, 1
	at, err := NewSinkAt(p, "127.0.0.1:0", "https://x.example/in/")
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	if got := at.Inbox(3, 1); got != "https://x.example/in/1" {
		t.Errorf("inbox %s", got)
	}
}

func TestTwoReportsAreComparedByTheirWork(t *testing.T) {
	now := Result{Plan: small(FanOut), PerSecond: 300, Deliveries: 60, Server: &Usage{Each: 2, InSignatures: 1}}
	then, other := now, now
	then.PerSecond, then.Server = 200, &Usage{Each: 4, InSignatures: 2}
	other.Mix = Single
	before := Report{Results: []Result{other, then}}
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "before.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := ReadReport(file)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := (Report{Results: []Result{now}}).Print(&b, &read); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before 200", "1.50 ×", "before 4.000", "0.50 ×", "fanout 20 × 3, rsa"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
	if _, err := ReadReport(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("read a report that is not there")
	}
}
