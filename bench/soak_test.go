package bench

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/caller"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/engines/pgtest"
	"fedpost/internal/testkit/fediverse"
	"fedpost/internal/testkit/long"
)

var (
	count    = flag.Int("deliveries", 0, "how many deliveries TestSoak measures, on a process of its own; 0 is 3,000 in the process of the test")
	database = flag.Bool("postgres", false, "with -deliveries: TestSoak runs on the server of "+pgtest.Variable)
)

// giveUp is for how long deliveries wait for a server that is measured before they
// are dead: 7 days in production.
const giveUp = 5 * time.Minute

// TestSoak delivers many activities to servers of which a quarter misbehave. In the end every recipient is
// in the final state that its server causes, none was sent to twice, the queues are empty and the
// counts add up. With -deliveries, it runs `fedpost up` as a process, and checks that its memory and
// the stored bytes of a delivery do not grow.
func TestSoak(t *testing.T) {
	long.Only(t, "servers in trouble hold deliveries up for half a minute")
	measured := *count > 0
	aside(t, !measured)
	n, random := cmp.Or(*count, 3_000), draws(t)
	servers, verified := troubled(2, time.Second), 1
	if measured {
		servers, verified = append(troubled(4, 20*time.Second), server{kind: "dead", mood: accept, up: time.Millisecond}), 10
	}
	s := &soak{t: t, fleet: newFleet(t, random.Uint64(), verified, servers), accepted: map[string]sent{}, handed: map[int]time.Time{}}
	settings := map[string]string{"RECORD_RETENTION": "1d", "RETRY_GIVE_UP": giveUp.String()}
	var usage *gauge
	if measured {
		// Its scheduled function runs each minute, so releases are as far apart.
		settings["RELEASE_EVERY"] = "1m"
		data := t.TempDir()
		stored := inFile(data)
		if *database {
			settings["DATABASE_URL"], settings["DATABASE_SCHEMA"] = pgtest.URL(t), pgtest.Schema(t)
			stored = inDatabase(t, settings["DATABASE_SCHEMA"])
		}
		p := e2e.Up(t, e2e.Build(t), data, settings)
		s.client = caller.Of(t, p.URL, caller.Through(&http.Transport{MaxIdleConnsPerHost: 8}))
		if _, err := s.client.PutKey(t.Context(), fediverse.Ed25519KeyID, e2e.PrivatePEM(t, fediverse.Ed25519KeyID)); err != nil {
			t.Fatal(err)
		}
		usage = measure(t, p.PID(), stored, s.total, s.dead)
	} else {
		// The scheduled function runs each half second, not each minute.
		w := e2e.Open(t, e2e.Embedded(), e2e.Options{Settings: settings})
		w.AddKey(fediverse.Ed25519KeyID, e2e.PrivatePEM(t, fediverse.Ed25519KeyID))
		s.client = w.Client
	}
	begin := time.Now()
	s.load(n, random)
	loaded := time.Since(begin)
	close(s.calm)
	if usage != nil {
		usage.stop()
		usage.flat()
	}
	t.Logf("%d deliveries of %d activities handed over in %s", s.planned.Load(), len(s.accepted), loaded.Round(time.Millisecond))
	states := s.ends()
	took := time.Since(begin)
	t.Logf("all ended after %s (%.0f a second while under load), by server and state:", took.Round(time.Millisecond), float64(s.planned.Load())/loaded.Seconds())
	for _, kind := range slices.Sorted(maps.Keys(states)) {
		t.Logf("  %-10s %v", kind, states[kind])
	}
	s.once()
	s.counted(states)
	idle(t, s.client)
}

// troubled are servers of which three quarters work; there are n of each trouble. away is how long
// those that vanish stay away.
func troubled(n int, away time.Duration) []server {
	var servers []server
	for range n {
		for range 18 {
			servers = append(servers, server{kind: "well", mood: accept})
		}
		servers = append(
			servers,
			server{kind: "refusing", mood: refuse(http.StatusNotFound)},
			server{kind: "stumbling", mood: stumble},
			server{kind: "throttling", mood: throttle(50, time.Second)},
			server{kind: "hanging", mood: hang},
			server{kind: "vanishing", mood: accept, up: 2 * away, down: away},
		)
	}
	return servers
}

// ending are the final states that a recipient may be in, by the kind of its server.
var ending = map[string][]string{
	"well": {"delivered"}, "refusing": {"failed"}, "dead": {"dead"},
	"stumbling": {"delivered", "dead"}, "throttling": {"delivered", "dead"}, "hanging": {"delivered", "dead"}, "vanishing": {"delivered", "dead"},
}

// soak is a fedpost under load.
type soak struct {
	*fleet
	t      *testing.T
	client *client.Client

	planned atomic.Int64 // deliveries
	well    atomic.Int64 // those of them to servers that are well

	mu       sync.Mutex
	accepted map[string]sent   // by id
	handed   map[int]time.Time // when an activity was handed over, by number
}

// dead is how many deliveries have died so far.
func (s *soak) dead() (int, error) {
	var got client.Stats
	err := s.client.Do(s.t.Context(), http.MethodGet, "/v1/stats", nil, &got)
	return got.Counts["dead"], err
}

// load has four callers submit activities until there are n deliveries. Callers wait while working
// servers have a few thousand deliveries to come: a soak is not about a growing backlog.
func (s *soak) load(n int, random *rand.Rand) {
	s.t.Helper()
	const backlog = 10_000
	var number atomic.Int64
	var callers sync.WaitGroup
	for caller := range 4 {
		random := rand.New(rand.NewPCG(random.Uint64(), 0))
		callers.Go(func() {
			for s.t.Context().Err() == nil {
				from, order := random.IntN(20_000), -1
				of := sent{int(number.Add(1)), from, from + []int{1, 1, 5, 40, 200, 1000}[random.IntN(6)]}
				r := client.Submission{KeyID: fediverse.Ed25519KeyID}
				if of.deliveries() == 5 {
					order = caller
					r.OrderingKey = fmt.Sprint("caller-", caller)
				}
				r.Activity = []byte(activity(of.number, order))
				for user := of.from; user < of.to; user++ {
					r.Recipients = append(r.Recipients, client.Recipient{Inbox: s.inboxOf(user)})
					if s.kindOf(user) == "well" {
						s.well.Add(1)
					}
				}
				if s.planned.Add(int64(of.deliveries())) > int64(n+1000) {
					s.planned.Add(-int64(of.deliveries()))
					return
				}
				handed := time.Now()
				a, err := s.client.Send(s.t.Context(), r)
				if err != nil {
					s.t.Errorf("submit: %v", err)
					return
				}
				s.mu.Lock()
				s.accepted[a.ID], s.handed[of.number] = of, handed
				s.mu.Unlock()
				for int(s.well.Load())-s.tookBy("well") > backlog {
					rest(s.t.Context(), 20*time.Millisecond)
				}
			}
		})
	}
	callers.Wait()
}

// tookBy is how many deliveries the servers of a kind took, each once.
func (s *soak) tookBy(kind string) (sum int) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	for host, n := range s.byHost {
		if s.servers[host].kind == kind {
			sum += n
		}
	}
	return sum
}

// ends waits until all that was accepted has ended, and returns the recipients
// by kind of server and state.
func (s *soak) ends() map[string]map[string]int {
	s.t.Helper()
	states := map[string]map[string]int{}
	// What has died for a server that is back is released a thousand at a time, every other minute.
	most := time.Duration(s.planned.Load()) / time.Duration(len(s.servers))
	deadline := time.Now().Add(giveUp + 10*time.Minute + most*2*time.Minute/1000)
	lost := 0
	for id, of := range s.accepted {
		e2e.Await(s.t, time.Until(deadline), "activity "+id, func() (bool, string) {
			a, err := s.client.Activity(s.t.Context(), id)
			if err != nil {
				return false, err.Error()
			}
			return a.Status == "done", fmt.Sprint(a.Status, " ", a.Counts)
		})
		got := map[string]string{} // state by inbox
		for _, r := range s.everyone(id) {
			if before, twice := got[r.Inbox]; twice {
				s.t.Errorf("activity %s lists %s as %s and as %s", id, r.Inbox, before, r.State)
			}
			got[r.Inbox] = r.State
		}
		if len(got) != of.deliveries() {
			s.t.Errorf("activity %s lists %d recipients of %d", id, len(got), of.deliveries())
		}
		for user := of.from; user < of.to; user++ {
			kind, state := s.kindOf(user), got[s.inboxOf(user)]
			if states[kind] == nil {
				states[kind] = map[string]int{}
			}
			states[kind][state]++
			if !slices.Contains(ending[kind], state) {
				s.t.Errorf("user %d of a server that is %s is %s in activity %s", user, kind, state, id)
			}
			if took := s.has(delivery{of.number, user}); took != (state == "delivered") && (!took || s.sure(user)) {
				lost++
				s.t.Errorf("activity %s is %s for user %d of a server that is %s, and was taken: %t", id, state, user, kind, took)
			}
			if lost > 20 {
				s.t.Fatal("too many are wrong to go on")
			}
		}
	}
	return states
}

// sure reports whether the server of a user answers whenever it takes something, so that the sender
// knows. One that vanishes may do so before its answer; one that hangs may answer when the sender
// has given up.
func (s *soak) sure(user int) bool {
	kind := s.kindOf(user)
	return kind != "vanishing" && kind != "hanging"
}

// everyone lists the recipients of an activity.
func (s *soak) everyone(id string) (all []client.RecipientStatus) {
	s.t.Helper()
	for r, err := range s.client.Recipients(s.t.Context(), id, client.RecipientQuery{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// once checks that nobody was served twice, that all signatures were valid, and order.
func (s *soak) once() {
	s.t.Helper()
	unanswered := 0
	for _, d := range s.doubles {
		if !s.sure(d.user) {
			unanswered++
			continue
		}
		s.t.Errorf("activity %d was taken for user %d of a server that is %s at %s and again at %s", d.activity, d.user, s.kindOf(d.user), d.first, d.second)
	}
	s.t.Logf("%d deliveries were taken, %d of them twice as the server vanished or hung before its answer", s.total(), unanswered)
	for err, n := range s.refused {
		s.t.Errorf("%d requests were not as they should be: %s", n, err)
	}
	for _, fault := range s.faults {
		age := fault.at.Sub(s.handed[fault.activity])
		if age > giveUp {
			continue // it had died, and was revived behind later ones
		}
		s.t.Errorf("%s, %s after it was handed over", fault, age.Round(time.Second))
		for id, of := range s.accepted {
			if of.number != fault.activity {
				continue
			}
			for _, r := range s.everyone(id) {
				if r.Inbox == s.inboxOf(fault.user) {
					s.t.Logf("  of activity %s: %+v", id, r)
				}
			}
		}
	}
}

// counted checks that the statistics say the same as the activities.
func (s *soak) counted(states map[string]map[string]int) {
	s.t.Helper()
	want := map[string]int{"accepted": int(s.planned.Load())}
	for _, byState := range states {
		for state, n := range byState {
			want[state] += n
		}
	}
	e2e.Await(s.t, time.Minute, "counts that add up", func() (bool, string) {
		var got client.Stats
		if err := s.client.Do(s.t.Context(), http.MethodGet, "/v1/stats?"+url.Values{"days": {"2"}}.Encode(), nil, &got); err != nil {
			return false, err.Error()
		}
		for name, n := range want {
			if got.Counts[name] != n {
				return false, fmt.Sprintf("%v, want %v", got.Counts, want)
			}
		}
		return true, ""
	})
}
