package bench

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	posted "fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/app/local"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/healthcheck"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/store"
	"fedpost/internal/testkit/caller"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

var (
	parked  = flag.Int("parked", 2000, "how many deliveries wait in TestWhatWaits, 100 for each host")
	watched = flag.Duration("watched", time.Second, "for how long TestWhatWaits watches idle processes")
)

// perHost is how many deliveries wait for each host: one of each activity.
const perHost, perChunk = 100, 50

// TestWhatWaits measures what parked deliveries cost while they wait: the memory and the
// processor time of an idle `fedpost up`, a scheduled run, a look at one of their activities,
// and their release.
func TestWhatWaits(t *testing.T) {
	long.Only(t, "fills a file and watches idle processes")
	empty, full := t.TempDir(), t.TempDir()
	command := e2e.Build(t)
	for _, data := range []string{empty, full} {
		e2e.Up(t, command, data, nil).Kill()
	}
	w := fill(t, full, *parked)
	info, err := os.Stat(filepath.Join(full, local.Database))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d deliveries wait for %d hosts: %.0f bytes each in the file", *parked, len(w.hosts), float64(info.Size())/float64(*parked))

	without, with := e2e.Up(t, command, empty, nil), e2e.Up(t, command, full, nil)
	rest(t.Context(), min(20*time.Second, *watched)) // it catches up with the checks that are due
	begin := [2]float64{processor(t, without.PID()), processor(t, with.PID())}
	rest(t.Context(), *watched)
	for i, p := range []*e2e.Process{without, with} {
		g := gauge{pid: p.PID(), stored: inFile([]string{empty, full}[i]), done: func() int { return 0 }, dead: func() (int, error) { return 0, nil }}
		s, err := g.sample()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("idle %s them: %.1f MB, %.2f s of the processor in %s", []string{"without", "with"}[i], mega(s.memory), processor(t, p.PID())-begin[i], watched)
	}
	w.look(t, caller.Of(t, with.URL))
	without.Kill()
	with.Kill()
	w.release(t, full)
}

// waiting is what a file was filled with.
type waiting struct {
	ids   []posted.ID
	hosts []string
}

// fill parks n deliveries in the file of a data directory, as they are when their hosts have
// been down for a day: each is checked once a day.
func fill(t *testing.T, data string, n int) (w waiting) {
	t.Helper()
	now, rules := time.Now(), circuit.Default()
	e, s := openFile(t, data)
	for i := range max(1, n/perHost) {
		host := fmt.Sprintf("127.%d.%d.%d:9", 1+i>>16, i>>8&255, i&255)
		w.hosts = append(w.hosts, host)
		down := circuit.State{Key: circuit.HostKey(host)}.Fault(rules, outcome.ConnRefused, "refused", now.Add(-48*time.Hour)).Park(rules, now.Add(-48*time.Hour))
		for range rules.Checks + 2 {
			down = down.CheckFailed(rules, outcome.ConnRefused, "refused", now.Add(-24*time.Hour))
		}
		down.CheckAt = now.Add(time.Duration(i) * 24 * time.Hour / time.Duration(max(1, n/perHost)))
		if _, err := s.SaveServer(t.Context(), down); err != nil {
			t.Fatal(err)
		}
	}
	for number := 0; number*len(w.hosts) < n; number++ {
		created := now.Add(-24 * time.Hour).Add(time.Duration(number) * time.Second)
		a := posted.Activity{ID: posted.DerivedID(created, fmt.Sprint(number)), Protocol: posted.ActivityPub, Type: "Create", Body: body(number), CreatedAt: created, Options: posted.Options{KeyID: "https://social.example/users/alice#main-key"}}
		w.ids = append(w.ids, a.ID)
		var targets []posted.Target
		for _, h := range w.hosts {
			targets = append(targets, posted.Target{Inbox: "http://" + h + "/inbox", Stands: 1})
		}
		chunks := slices.Collect(slices.Chunk(targets, perChunk))
		if err := s.CreateActivity(t.Context(), ledger.Record{
			ID: a.ID, Type: "Create", CreatedAt: created, Recipients: len(targets), Targets: len(targets), Chunk: perChunk, Forget: now.Add(30 * 24 * time.Hour),
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.PlanChunks(t.Context(), a.ID, 0, chunks, now.Add(30*24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		for c, chunk := range chunks {
			var ps []parking.Parked
			for p, target := range chunk {
				ps = append(ps, parking.Parked{
					Key: circuit.HostKey(target.Host()), Activity: a, Since: created, GiveUp: created.Add(7 * 24 * time.Hour),
					Delivery: message.Delivery{Chunk: c, Position: p, Targets: []posted.Target{target}, Generation: parking.FirstGeneration},
				})
			}
			if err := s.Park(t.Context(), ps); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return w
}

func body(number int) string {
	const size = 1500
	b := fmt.Sprintf(`{"id":"https://social.example/activities/%d","type":"Create","content":"`, number)
	return b + strings.Repeat("fedpost ", size/8)[:size-len(b)-2] + `"}`
}

func openFile(t testing.TB, data string) (*sqlite.Engine, *store.Store) {
	t.Helper()
	e, err := sqlite.Open(t.Context(), filepath.Join(data, local.Database), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e, store.New(e.Table(), time.Now)
}

// processor is how much processor time a process has used, in seconds.
func processor(t *testing.T, pid int) float64 {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields, sum := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:])), 0
	for _, f := range fields[11:13] {
		ticks, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		sum += ticks
	}
	return float64(sum) / 100
}

// look views activities of which all recipients wait.
func (w waiting) look(t *testing.T, c *client.Client) {
	t.Helper()
	var times []time.Duration
	for n := range 200 {
		begin := time.Now()
		a, err := c.Activity(t.Context(), string(w.ids[n%len(w.ids)]))
		if err != nil || a.Counts["parked"] != len(w.hosts) {
			t.Fatalf("the activity is %v, error %v; want %d parked", a, err, len(w.hosts))
		}
		times = append(times, time.Since(begin))
	}
	slices.Sort(times)
	t.Logf("a view of an activity with %d recipients: p50 %s, p99 %s", len(w.hosts), times[99], times[197])
}

// release makes scheduled runs check the hosts that are due, then all, and then release the
// deliveries of a tenth of them.
func (w waiting) release(t *testing.T, data string) {
	t.Helper()
	e, s := openFile(t, data)
	at := time.Now()
	r := healthcheck.New(healthcheck.Config{
		Servers: s, Prober: away{}, Log: slog.New(slog.DiscardHandler), Meter: world.Unmetered{}, Now: func() time.Time { return at },
		Lot: &parking.Lot{
			Store: s, Servers: s, Queues: func(n queue.Name) queue.Sender { return e.Queue(n) }, Rules: circuit.Default(),
			Now: func() time.Time { return at }, Random: func() float64 { return 0.5 },
		},
	})
	run := func(what string) {
		t.Helper()
		used, begin := processor(t, os.Getpid()), time.Now()
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s, %.2f s of the processor", what, time.Since(begin).Round(time.Millisecond), processor(t, os.Getpid())-used)
	}
	run("a scheduled run, first")
	at = at.Add(time.Minute)
	run("a scheduled run")
	at = at.Add(24 * time.Hour)
	for range 1 + len(w.hosts)/(circuit.Shards*1000) {
		run("a scheduled run in which all hosts are due, or a thousand of each shard")
	}
	n := max(1, len(w.hosts)/10)
	for _, h := range w.hosts[:n] {
		st, err := circuit.Load(t.Context(), s, circuit.HostKey(h))
		if err != nil {
			t.Fatal(err)
		}
		st = st.Resume(circuit.Default(), at)
		st.Ramp = 1000
		if _, err := s.SaveServer(t.Context(), st); err != nil {
			t.Fatal(err)
		}
	}
	at = at.Add(time.Minute)
	run(fmt.Sprintf("a scheduled run that releases %d", n*perHost))
	d, err := e.Queue(queue.Normal).Depth(t.Context())
	if err != nil || d.Visible+d.Delayed != n*perHost {
		t.Errorf("the queue has %+v, %v; want %d messages", d, err, n*perHost)
	}
}

type away struct{}

func (away) Probe(context.Context, string) outcome.Outcome {
	return outcome.Outcome{Class: outcome.Retry, Reason: outcome.ConnRefused, Err: "refused"}
}
