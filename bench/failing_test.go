package bench

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/app/local"
	"fedpost/internal/testkit/caller"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/engines/pgtest"
	"fedpost/internal/testkit/fediverse"
	"fedpost/internal/testkit/long"
)

var (
	failing = flag.Int("failing", 0, "how many hosts of each kind fail in TestFailingHosts, beside a fifth as many; 0 is 2,500 of all kinds mixed")
	lasting = flag.Duration("lasting", 13*time.Second, "for how long TestFailingHosts watches each process")
	against = flag.String("against", "", "a fedpost that TestFailingHosts measures instead of this one")
)

// What failing hosts may cost a process.
const (
	// mostMemory is its resident memory, in MB.
	mostMemory = 250
	// shared is how much more memory many activities to many hosts take than the many activities
	// to a few hosts and the one activity to many, in MB: what the collector leaves.
	shared = 48
	// known are its goroutines beside messages and attempts.
	known = 300
	// dearer is how much more processor time a failed attempt takes than with 100 hosts.
	dearer = 1.5
)

// How hosts fail.
var kinds = []string{"refused", "unresolved", "500", "429", "401", "hang"}

// TestFailingHosts sends one activity and many to few hosts and to many that fail, with default
// settings, and to a healthy host beside them. Whatever the process keeps for each host or for each
// activity may grow with that; nothing may grow with their product.
func TestFailingHosts(t *testing.T) {
	long.Only(t, "watches four processes for each way to fail")
	many, groups := *failing, kinds
	if many == 0 {
		many, groups = 2500, []string{"mixed"}
	}
	command := *against
	if command == "" {
		command = e2e.Build(t)
	}
	f := newCorpses(t, command)
	const activities = 5
	for _, kind := range groups {
		t.Run(kind, func(t *testing.T) {
			if kind == "unresolved" && f.blind == "" {
				t.Skip("the process cannot get a resolver of its own: unshare needs root, or namespaces of users")
			}
			base := f.run(t, kind, 100, activities)
			few, tall := f.run(t, kind, many/5, 1), f.run(t, kind, many/5, activities)
			wide, both := f.run(t, kind, many, 1), f.run(t, kind, many, activities)
			for _, r := range []cost{base, few, tall, wide, both} {
				t.Log(r)
				r.check(t)
			}
			if most := tall.memory + wide.memory - few.memory + shared; both.memory > most {
				t.Errorf("%d activities to %d hosts take %.0f MB: memory grows with their product, as %.0f would be their sum", activities, many, both.memory, most)
			}
			if both.perFailure() > dearer*base.perFailure() {
				t.Errorf("a failed attempt costs %.2f ms with %d hosts, and %.2f with %d: at most %.1f times as much", 1e3*both.perFailure(), both.hosts, 1e3*base.perFailure(), base.hosts, dearer)
			}
		})
	}
}

// corpses are hosts that fail, each with an address of its own.
type corpses struct {
	command string
	blind   string // a command whose resolver is down; empty: none can be had
	port    int    // of all hosts that answer
}

func newCorpses(t *testing.T, command string) *corpses {
	l, err := net.Listen("tcp", "0.0.0.0:0") // so that each loopback address is a host
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, func(w http.ResponseWriter, r *http.Request) {
		kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if status, err := strconv.Atoi(kind); err == nil {
			w.WriteHeader(status)
			return
		}
		<-r.Context().Done()
	})
	return &corpses{command: command, blind: blinded(t, command), port: l.Addr().(*net.TCPAddr).Port}
}

func serve(t *testing.T, l net.Listener, h http.HandlerFunc) {
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
}

// blinded is a command that runs another where nobody resolves names, as if our own resolver was
// down: nothing listens at its address.
func blinded(t *testing.T, command string) string {
	dir := t.TempDir()
	resolver, script := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "blind")
	flags := "-m"
	if os.Geteuid() != 0 {
		flags = "-rm"
	}
	text := fmt.Sprintf("#!/bin/sh\nexec unshare %s sh -c 'mount --bind %s /etc/resolv.conf && exec \"$@\"' sh \"${COMMAND:-%s}\" \"$@\"\n", flags, resolver, command)
	for path, content := range map[string]string{resolver: "nameserver 127.77.0.53\n", script: text} {
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	probe := exec.Command(script)
	if probe.Env = append(os.Environ(), "COMMAND=true"); probe.Run() != nil {
		return ""
	}
	return script
}

// inbox is that of the n-th host of a kind.
func (f *corpses) inbox(kind string, n int) string {
	all := kinds
	if f.blind == "" {
		all = slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == "unresolved" })
	}
	if kind == "mixed" {
		kind = all[n%len(all)]
	}
	host, port := fmt.Sprintf("127.%d.%d.%d", 70+n>>16&63, n>>8&255, n&255), f.port
	switch kind {
	case "unresolved":
		host = fmt.Sprintf("h%d.failing.example", n)
	case "refused":
		port = 1
	}
	return fmt.Sprintf("http://%s:%d/%s/inbox", host, port, kind)
}

// cost is what a run took at most.
type cost struct {
	hosts, activities int
	memory            float64 // MB
	goroutines        int
	left              int // goroutines at the end, beside messages in work
	busy              float64
	failed            int // attempts, or tries that made no request
	median, worst     time.Duration
	sent, late        int // deliveries to the healthy host
}

func (c cost) perFailure() float64 { return c.busy / float64(max(1, c.failed)) }

func (c cost) String() string {
	return fmt.Sprintf("%d × %d: %.0f MB, %d goroutines, %d at the end, %.1f s of the processor for %d failures (%.2f ms each); healthy host: %d posts, median %s, worst %s",
		c.hosts, c.activities, c.memory, c.goroutines, c.left, c.busy, c.failed, 1e3*c.perFailure(), c.sent, c.median.Round(time.Millisecond), c.worst.Round(time.Millisecond))
}

func (c cost) check(t *testing.T) {
	t.Helper()
	if c.memory > mostMemory {
		t.Errorf("%d × %d took %.0f MB, at most %d", c.hosts, c.activities, c.memory, mostMemory)
	}
	if most := known + local.Messages + 2*local.PerQueue; c.goroutines > most || c.left > known {
		t.Errorf("%d × %d had %d goroutines, at most %d, and %d at the end beside messages in work, at most %d", c.hosts, c.activities, c.goroutines, most, c.left, known)
	}
	if c.late > 0 || c.median > time.Second || c.worst > 3*time.Second {
		t.Errorf("%d × %d: of %d deliveries to a healthy host %d did not begin; median %s, worst %s", c.hosts, c.activities, c.sent, c.late, c.median, c.worst)
	}
}

// good is a healthy host, to which another actor posts.
type good struct {
	mu   sync.Mutex
	sent []time.Time
	got  map[int]time.Time
}

const goodKey = "https://mastodon.example/users/Yan#main-key"

// run sends activities to hosts of a kind, and a post each half second to a healthy host.
func (f *corpses) run(t *testing.T, kind string, hosts, activities int) cost {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ok := &good{got: map[int]time.Time{}}
	serve(t, l, ok.take)
	command, data := f.command, t.TempDir()
	if kind == "unresolved" || kind == "mixed" && f.blind != "" {
		command = f.blind
	}
	environ := map[string]string{"LOG_LEVEL": "error"}
	for name := range e2e.Hasty {
		environ[name] = "" // the default
	}
	if *database {
		environ["DATABASE_URL"], environ["DATABASE_SCHEMA"] = pgtest.URL(t), pgtest.Schema(t)
	}
	p := e2e.Up(t, command, data, environ)
	defer p.Kill()
	c := caller.Of(t, p.URL)
	for _, key := range []string{fediverse.Ed25519KeyID, goodKey} {
		if _, err := c.PutKey(t.Context(), key, e2e.PrivatePEM(t, fediverse.Ed25519KeyID)); err != nil {
			t.Fatal(err)
		}
	}
	send := func(id, key string, to []client.Recipient) {
		actor, _, _ := strings.Cut(key, "#")
		body := fmt.Sprintf(`{"type":"Create","id":"https://mastodon.example/%s","actor":%q,"object":{"type":"Note"}}`, id, actor)
		if _, err := c.Send(t.Context(), client.Submission{Activity: []byte(body), KeyID: key, Recipients: to}); err != nil {
			t.Error(err)
		}
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		for a := range activities {
			var to []client.Recipient
			for n := range hosts {
				to = append(to, client.Recipient{Inbox: f.inbox(kind, n)})
			}
			send(fmt.Sprint("bad/", a), fediverse.Ed25519KeyID, to)
		}
	})
	r := cost{hosts: hosts, activities: activities}
	usage := gauge{pid: p.PID(), stored: func() (int64, int64, error) { return 0, 0, nil }, done: func() int { return 0 }, dead: func() (int, error) { return 0, nil }}
	for begin := time.Now(); time.Since(begin) < *lasting; rest(t.Context(), time.Second/2) {
		send(fmt.Sprint("good/", ok.send()), goodKey, []client.Recipient{{Inbox: "http://" + l.Addr().String() + "/inbox"}})
		s, err := usage.sample()
		if err != nil {
			t.Fatal(err)
		}
		r.memory = max(r.memory, mega(s.memory))
		m := metricsOf(t, p.URL)
		r.left = int(m["go_goroutines"])
		r.goroutines, r.failed = max(r.goroutines, r.left), failures(m)
	}
	r.busy = processor(t, p.PID())
	// Attempts and messages that are still in work have goroutines; what is merely known has none.
	e2e.Await(t, 20*time.Second, "few goroutines", func() (bool, string) {
		r.left = min(r.left, int(metricsOf(t, p.URL)["go_goroutines"]))
		return r.left <= known || kind == "hang" || kind == "mixed", fmt.Sprint(r.left)
	})
	if kind == "hang" || kind == "mixed" {
		r.left = 0 // attempts hang at any time
	}
	ok.tell(&r)
	return r
}

func (g *good) send() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sent = append(g.sent, time.Now())
	return len(g.sent) - 1
}

func (g *good) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	_, id, ok := strings.Cut(string(body), `/good/`)
	id, _, _ = strings.Cut(id, `"`)
	if n, notNumber := strconv.Atoi(id); err == nil && ok && notNumber == nil {
		g.mu.Lock()
		g.got[n] = time.Now()
		g.mu.Unlock()
	}
	w.WriteHeader(http.StatusAccepted)
}

// tell says how long the healthy host waited. Posts of the last three seconds may be under way.
func (g *good) tell(r *cost) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var waits []time.Duration
	for n, at := range g.sent {
		end, ok := g.got[n]
		if !ok {
			if time.Since(at) > 3*time.Second {
				r.late++
			}
			continue
		}
		waits = append(waits, end.Sub(at))
	}
	slices.Sort(waits)
	if r.sent = len(g.sent); len(waits) > 0 {
		r.median, r.worst = waits[len(waits)/2], waits[len(waits)-1]
	}
}

// failures counts the requests that failed, or, of hosts that cannot be asked, the tries.
func failures(m map[string]float64) int {
	n := 0.0
	for name, value := range m {
		if strings.HasPrefix(name, "fedpost_attempts_total{") && !strings.Contains(name, `"delivered"`) {
			n += value
		}
	}
	return int(max(n, m[`fedpost_recipients_total{state="retrying"}`]))
}

var metricLine = regexp.MustCompile(`(?m)^([a-z_]+(?:\{[^}]*\})?) ([0-9.e+]+)$`)

func metricsOf(t *testing.T, url string) map[string]float64 {
	t.Helper()
	r, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, m := range metricLine.FindAllStringSubmatch(string(text), -1) {
		if all[m[1]], err = strconv.ParseFloat(m[2], 64); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
