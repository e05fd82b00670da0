package sipher_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/sipherpeer"
)

// sick is a table that can fail in part: the calls on items whose partition key begins
// with a given prefix fail.
type sick struct {
	table.Table
	parts atomic.Pointer[[]string]
}

var errSick = errors.New("the table is out of order")

func (s *sick) fails(pk string) bool {
	parts := s.parts.Load()
	return parts != nil && slices.ContainsFunc(*parts, func(part string) bool { return strings.HasPrefix(pk, part) })
}

func (s *sick) breaks(parts ...string) { s.parts.Store(&parts) }
func (s *sick) heal()                  { s.parts.Store(nil) }

func (s *sick) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	for _, k := range keys {
		if s.fails(k.PK) {
			return nil, errSick
		}
	}
	return s.Table.Get(ctx, keys...)
}

func (s *sick) Put(ctx context.Context, it table.Item, c table.Cond) error {
	if s.fails(it.PK) {
		return errSick
	}
	return s.Table.Put(ctx, it, c)
}

func (s *sick) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	if s.fails(r.PK) {
		return nil, false, errSick
	}
	return s.Table.Query(ctx, r)
}

// TestAnOutageOfTheRegistryHarmsNoJob: the protocol's part of the table is out of reach
// for longer than five tries take. The outage costs no try.
func TestAnOutageOfTheRegistryHarmsNoJob(t *testing.T) {
	for _, known := range []bool{true, false} {
		s := &sick{}
		o := options{messages: 20, table: func(t table.Table) table.Table { s.Table = t; return s }}
		runWith(t, o, func(t *testing.T, w *world) {
			if known {
				w.acquainted(w.b)
			}
			s.breaks("SIPHER#")
			id := w.send(postJob())
			pass(15 * time.Minute)
			if r := w.look(id); r.State != "retrying" || r.Attempts != 0 || !strings.Contains(r.LastError, "out of order") {
				t.Errorf("recipient: %s", brief(r))
			}
			if got := w.b.Deliveries(); len(got) > 0 {
				t.Errorf("B got %d deliveries", len(got))
			}
			s.heal()
			if r := w.ends(id); r.State != "delivered" || r.Attempts != 1 {
				t.Errorf("recipient: %s", brief(r))
			}
		})
	}
}

// TestAFollowThatCannotBeRecordedIsNotSent: its acknowledgement would have no effect. The closed
// fallback refuses the job; with the open one the follow is recorded before the first attempt.
func TestAFollowThatCannotBeRecordedIsNotSent(t *testing.T) {
	for _, fallback := range []string{"closed", "open"} {
		s := &sick{}
		o := options{
			table:    func(t table.Table) table.Table { s.Table = t; return s },
			settings: map[string]string{"DEDUPLICATION_FALLBACK": fallback},
		}
		runWith(t, o, func(t *testing.T, w *world) {
			w.acquainted(w.b)
			s.breaks("SIPHER#FOLLOWS")
			if fallback == "closed" {
				var p *client.Problem
				if _, err := w.Client.Send(t.Context(), followJob()); !errors.As(err, &p) || p.Status != http.StatusServiceUnavailable {
					t.Errorf("answered %v", err)
				}
				if _, err := w.Client.Send(t.Context(), postJob()); err != nil {
					t.Errorf("a post, which has none: %v", err)
				}
				s.heal()
				if r := w.ends(w.send(followJob())); r.State != "delivered" {
					t.Errorf("recipient: %s", brief(r))
				}
				return
			}
			id := w.send(followJob())
			pass(time.Minute)
			if got := w.b.Deliveries(); len(got) > 0 {
				t.Errorf("sent without a record: %s", brief(got))
			}
			s.heal()
			if r := w.ends(id); r.State != "delivered" || r.Attempts != 1 {
				t.Errorf("recipient: %s", brief(r))
			}
			if f := w.follows(); len(f) != 1 || !f[0].Accepted {
				t.Errorf("follow: %s", brief(f))
			}
		})
	}
}

// TestAnAnswerThatCouldNotBeRecordedEndsAsDelivered: B has the post, and the activity's
// part of the table refuses writes. If the outcome was written to the journal, fedpost
// reads the outcome there when the message comes again. If it was not, B answers the next
// tries that the post exists already. Two such tries are needed, because only a try that
// is not the first of its record takes that answer for a success.
func TestAnAnswerThatCouldNotBeRecordedEndsAsDelivered(t *testing.T) {
	for _, c := range []struct {
		name, note string
		broken     []string
		posts      int
	}{
		{"noted", "", []string{"A#"}, 1},
		{"not noted", "acknowledgement lost: an earlier try was received, its answer was not", []string{"A#", "J#"}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &sick{}
			runWith(t, options{table: func(t table.Table) table.Table { s.Table = t; return s }}, func(t *testing.T, w *world) {
				w.acquainted(w.b)
				var posts atomic.Int32
				w.net.Serve(urlB, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					w.b.ServeHTTP(rw, r)
					if strings.HasSuffix(r.URL.Path, "/posts") && posts.Add(1) == 1 {
						s.breaks(c.broken...)
					}
				}))
				id := w.send(postJob())
				pass(time.Minute)
				s.heal()
				r := w.ends(id)
				if r.State != "delivered" || r.Note != c.note {
					t.Errorf("recipient: %s", brief(r))
				}
				if n := int(posts.Load()); n != c.posts {
					t.Errorf("%d posts, want %d", n, c.posts)
				}
				if w.dead() > 0 {
					t.Error("and a dead letter")
				}
			})
		})
	}
}

// TestTenDeliveriesAtATimeAndOneServerTakesHalfAtMost, both configurable.
func TestTenDeliveriesAtATimeAndOneServerTakesHalfAtMost(t *testing.T) {
	for _, c := range []struct {
		setting   string
		all, each int
	}{{"", 10, 5}, {"4", 4, 2}, {"1", 1, 1}, {"64", 60, 6}} { // one inbox gets three quarters of what its server gets
		settings := map[string]string{}
		if c.setting != "" {
			settings["SIPHER_DELIVERY_CONCURRENCY"] = c.setting
		}
		runWith(t, options{settings: settings, messages: 100}, func(t *testing.T, w *world) {
			m := &meter{net: w.net, each: map[string]int{}, peak: map[string]int{}}
			const servers, posts = 10, 12
			peers := map[string]*sipherpeer.Peer{}
			for n := range servers {
				p := sipherpeer.New(t, fmt.Sprintf("https://s%d.example", n))
				w.acquainted(p)
				peers[p.URL] = p
				w.net.Serve(p.URL, m.slow(p, 300*time.Millisecond))
			}
			var ids []string
			for n := range posts {
				for url := range peers {
					s := nthPost(n)
					s.ServerURL, s.Recipients = url, client.To(url+sipherpeer.PostsPath)
					// All fall due at one moment: a poll finds ten at once, of many hosts.
					s.Delay = client.Duration(time.Second)
					ids = append(ids, w.send(s))
				}
			}
			for _, id := range ids {
				if r := w.ends(id); r.State != "delivered" || r.Attempts != 1 {
					t.Errorf("recipient: %s", brief(r))
				}
			}
			if m.most != c.all {
				t.Errorf("%q: %d at a time, want %d", c.setting, m.most, c.all)
			}
			for url, n := range m.peak {
				if n > c.each {
					t.Errorf("%q: %d at a time to %s, want %d", c.setting, n, url, c.each)
				}
			}
		})
	}
}

// meter records how many requests are under way.
type meter struct {
	net  *sipherpeer.Network
	mu   sync.Mutex
	now  int
	most int
	each map[string]int
	peak map[string]int
}

func (m *meter) slow(p *sipherpeer.Peer, d time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.count(p.URL, 1)
		defer m.count(p.URL, -1)
		pass(d)
		p.ServeHTTP(w, r)
	})
}

func (m *meter) count(url string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now += n
	m.each[url] += n
	m.most, m.peak[url] = max(m.most, m.now), max(m.peak[url], m.each[url])
}

// TestAServerThatHangsDelaysNoOtherAndNoProducer: B hangs, with hundreds of jobs for it and each
// poller a process of its own. Once the workers know it, after one time-out, jobs for P get through
// at once, and the API accepts more for both all the time. When B is back, it gets what waits.
func TestAServerThatHangsDelaysNoOtherAndNoProducer(t *testing.T) {
	long.Only(t, "450 jobs wait for a server that hangs")
	t.Parallel()
	runWith(t, options{lambda: true}, func(t *testing.T, w *world) {
		w.acquainted(w.b, w.p)
		w.net.Hang(urlB)
		const backlog, learning = 450, 20 * time.Second
		var waiting []string
		for n := range backlog {
			waiting = append(waiting, w.send(nthPost(n)))
		}
		began := time.Now()
		for n := range 12 {
			begin := time.Now()
			s := nthPost(n)
			s.ServerURL, s.Recipients = urlP, client.To(urlP+sipherpeer.PostsPath)
			id := w.send(s)
			waiting = append(waiting, w.send(nthPost(backlog+n)))
			if took := time.Since(begin); took > 0 {
				t.Errorf("the API took %s", took)
			}
			if r := w.ends(id); r.State != "delivered" || r.Attempts != 1 {
				t.Errorf("recipient: %s", brief(r))
			}
			if took := time.Since(begin); took > time.Second && begin.Sub(began) > learning || took > 16*time.Second {
				t.Errorf("after %s a job for a healthy server took %s", begin.Sub(began), took)
			}
			pass(7 * time.Second)
		}
		w.net.Join(w.b)
		pass(5 * time.Minute)
		states := map[string]int{}
		for _, id := range waiting {
			states[w.look(id).State]++
		}
		if states["delivered"] < backlog*9/10 || states["delivered"]+states["dead"] != len(waiting) {
			t.Errorf("when B is back, the jobs that waited for it are %v", states)
		}
	})
}
