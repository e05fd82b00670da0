package sipher_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/sipherpeer"
)

// clocked records when requests come, and passes them on.
type clocked struct {
	next http.Handler
	path string
	mu   sync.Mutex
	at   []time.Time
}

func (c *clocked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, c.path) {
		c.mu.Lock()
		c.at = append(c.at, time.Now())
		c.mu.Unlock()
	}
	c.next.ServeHTTP(w, r)
}

// since returns how long after begin the requests came, to the millisecond.
func (c *clocked) since(begin time.Time) []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	ds := make([]time.Duration, len(c.at))
	for i, at := range c.at {
		ds[i] = at.Sub(begin).Round(100 * time.Millisecond)
	}
	return ds
}

// watch records when B is asked for a path.
func (w *world) watch(path string) *clocked {
	c := &clocked{next: w.b, path: path}
	w.net.Serve(urlB, c)
	return c
}

func seconds(ns ...float64) []time.Duration {
	ds := make([]time.Duration, len(ns))
	for i, n := range ns {
		ds[i] = time.Duration(n * float64(time.Second))
	}
	return ds
}

func TestFiveTriesWithWaitsOf5_10_20And40Seconds(t *testing.T) {
	for name, c := range map[string]struct {
		prepare  func(*world)
		path     string
		job      client.Submission
		at       []time.Duration
		attempts int
	}{
		"answers 500": {behaves(sipherpeer.Behavior{Status: 500}), sipherpeer.PostsPath, postJob(), seconds(0, 5, 15, 35, 75), 5},
		// The waits begin when a try has ended.
		"hangs": {behaves(sipherpeer.Behavior{Hang: true}), sipherpeer.FollowsPath, followJob(), seconds(0, 20, 45, 80, 135), 5},
		"cannot be discovered": {
			func(w *world) { w.b.Discover(sipherpeer.Discovery{Status: 500}) }, "/discover", postJob(), seconds(0, 5, 15, 35, 75), 0,
		},
		"discovery hangs": {
			func(w *world) { w.b.Discover(sipherpeer.Discovery{Hang: true}) }, "/discover", postJob(), seconds(0, 15, 35, 65, 115), 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, w *world) {
				c.prepare(w)
				seen := w.watch(c.path)
				begin := time.Now()
				id := w.send(c.job)
				r := w.ends(id)
				if got := seen.since(begin); !slices.Equal(got, c.at) {
					t.Errorf("asked after %v, want %v", got, c.at)
				}
				if r.State != "dead" || r.Attempts != c.attempts || r.Note != "5 tries failed" {
					t.Errorf("recipient: %s", brief(r))
				}
				pass(5 * time.Minute)
				if got := seen.since(begin); len(got) != 5 {
					t.Errorf("asked again: %v", got)
				}
			})
		})
	}
}

// TestAnExhaustedRecordIsMarkedFailedNeverLeftPending: a job that the protocol calls failed is
// "dead" in fedpost if its tries were exhausted: final, shown with its last error, and retried like
// other dead letters.
func TestAnExhaustedRecordIsMarkedFailedNeverLeftPending(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		behaves(sipherpeer.Behavior{Status: 502, Code: "BUSY"})(w)
		id := w.send(postJob())
		r := w.ends(id)
		if r.State != "dead" || r.LastStatus != 502 || r.LastError != "answered 502" || !strings.Contains(r.Response, "BUSY") {
			t.Errorf("recipient: %s", brief(r))
		}
		v, err := w.Activity(t.Context(), id)
		if err != nil || v.Status != "done" || v.Counts["dead"] != 1 || len(v.Counts) != 1 {
			t.Errorf("the job is %+v, error %v; want done with 1 dead", v, err)
		}
		if lines := w.logged("a delivery is given up"); len(lines) != 1 || lines[0]["level"] != "ERROR" || lines[0]["tries"] != float64(5) {
			t.Errorf("logged %v", lines)
		}

		// Revived, it has all of its tries again.
		w.b.Behave(sipherpeer.Behavior{Status: 502}, sipherpeer.Behavior{Status: 502}, sipherpeer.Behavior{})
		if err := w.Do(t.Context(), http.MethodPost, "/v1/dead-letters/retry", []byte(`{"activity":"`+id+`"}`), nil); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if r := w.ends(id); r.State != "delivered" || r.Attempts != 3 {
			t.Errorf("recipient: %s", brief(r))
		}
	})
}

func TestADiscoveryThatFailsAtFirstCostsATryAndNoAttempt(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.b.Discover(sipherpeer.Discovery{Status: 503})
		seen := w.watch("")
		begin := time.Now()
		id := w.send(postJob())
		pass(time.Second)
		r := w.look(id)
		if r.State != "retrying" || r.Attempts != 0 || !strings.Contains(r.LastError, "503") || r.NextAttemptAt.Sub(begin).Round(time.Second) != 5*time.Second {
			t.Errorf("recipient: %s", brief(r))
		}
		pass(5 * time.Second)
		w.b.Discover(sipherpeer.Discovery{CallBack: true})
		w.b.Behave(sipherpeer.Behavior{Status: 500}, sipherpeer.Behavior{Status: 500}, sipherpeer.Behavior{Status: 500})
		if r := w.ends(id); r.State != "dead" || r.Attempts != 3 || r.Note != "5 tries failed" {
			t.Errorf("recipient: %s", brief(r))
		}
		if got, want := seen.since(begin), seconds(0, 5, 15, 15, 15, 35, 75); !slices.Equal(got, want) {
			t.Errorf("asked after %v, want %v", got, want)
		}
	})
}

func TestDeliveredRecordsAreKept24HoursAndFailedOnes7Days(t *testing.T) {
	const day = 24 * time.Hour
	for state, c := range map[string]struct {
		prepare func(*world)
		kept    time.Duration
	}{
		"delivered": {friends, day},
		"failed":    {behaves(sipherpeer.Behavior{Form: sipherpeer.Text}), 7 * day},
		"dead":      {behaves(sipherpeer.Behavior{Status: 500}), 7 * day},
	} {
		for _, retention := range []string{"1d", "30d"} {
			t.Run(state+" "+retention, func(t *testing.T) {
				runWith(t, options{settings: map[string]string{"RECORD_RETENTION": retention}}, func(t *testing.T, w *world) {
					c.prepare(w)
					id := w.send(postJob())
					if r := w.ends(id); r.State != state {
						t.Fatalf("recipient: %s", brief(r))
					}
					w.stop() // days of polling would take seconds
					pass(c.kept - time.Minute)
					if r := w.look(id); r.State != state {
						t.Errorf("within %s: %+v", c.kept, r)
					}
					pass(time.Minute)
					_, err := w.Activity(t.Context(), id)
					var p *client.Problem
					if !errors.As(err, &p) || p.Status != http.StatusNotFound {
						t.Errorf("after %s: %v", c.kept, err)
					}
				})
			})
		}
	}
}

func TestEveryFailedAttemptIsLoggedOnce(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		behaves(sipherpeer.Behavior{Status: 503})(w)
		id := w.send(followJob())
		w.ends(id)
		refused := w.send(payload("{}"))
		w.ends(refused)
		lines := w.logged("attempt failed")
		if len(lines) != 6 {
			t.Fatalf("%d lines:\n%s", len(lines), w.log)
		}
		for i, l := range lines[:5] {
			if l["activity"] != id || l["method"] != "FEDERATE" || l["job"] != "deliver-follow" || l["target"] != urlB+sipherpeer.FollowsPath ||
				l["attempt"] != float64(i+1) || l["remaining"] != float64(4-i) || l["error"] != "answered 503" {
				t.Errorf("line %d of the log is %v; want attempt %d of job %s, answered 503", i, l, i+1, id)
			}
		}
		if l := lines[5]; l["activity"] != refused || l["remaining"] != float64(0) || !strings.Contains(l["error"].(string), "invalid sipher payload") {
			t.Errorf("the last line of the log is %v; want that the payload of job %s is refused", l, refused)
		}
		// No other line reports the same failures.
		for line := range strings.Lines(w.log.String()) {
			if strings.Contains(line, "answered 503") && !strings.Contains(line, `"attempt failed"`) && !strings.Contains(line, "is given up") {
				t.Errorf("also logged: %s", line)
			}
		}
	})
}
