// Package sipher shows the Sipher protocol through the whole of fedpost: jobs
// come in by the HTTP API, wait on the embedded engine's queues, are taken by
// the deliver handler and end in peers that were written apart from it.
//
// It runs in fake time, so that hours of waits pass at once and every moment is
// exact; only what the protocol leaves to chance is not.
//
// A new test runs with a world, which has us (a), a target (b) and a proxy (p):
//
//	func TestAServerThatRefusesOnceIsTriedAgain(t *testing.T) {
//		run(t, func(t *testing.T, w *world) {
//			w.acquainted(w.b)
//			w.b.Behave(sipherpeer.Behavior{Status: 503}, sipherpeer.Behavior{})
//			if r := w.ends(w.send(postJob())); r.State != "delivered" || r.Attempts != 2 {
//				t.Errorf("recipient: %s, want delivered after 2 attempts", brief(r))
//			}
//		})
//	}
package sipher_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/client"
	"fedpost/internal/app/config"
	"fedpost/internal/app/local"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/keys"
	"fedpost/internal/testkit/caller"

	"fedpost/internal/api"
	"fedpost/internal/app"
	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/protocol/sipher/follow"
	"fedpost/internal/store"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/sipherpeer"
	engineworld "fedpost/internal/testkit/world"
)

const (
	urlA = "https://a.example"
	urlB = "https://b.example"
	urlP = "https://p.example"
)

// world is fedpost as server A, a target B and a proxy P on one network.
type world struct {
	*fedpost
	a, b, p *sipherpeer.Peer // a is who we are: it has our keys
	net     *sipherpeer.Network
}

// run runs a test with a world in fake time, with standard queues and, where long tests run,
// with FIFO queues.
func run(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	runWith(t, options{}, test)
}

func runWith(t *testing.T, o options, test func(t *testing.T, w *world)) {
	t.Helper()
	for _, typ := range []queue.Type{queue.Standard, queue.FIFO} {
		t.Run(string(typ), func(t *testing.T) {
			if typ == queue.FIFO {
				long.Only(t, "shows the same with standard queues")
			}
			runOn(t, typ, o, test)
		})
	}
}

func runOn(t *testing.T, typ queue.Type, o options, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{a: sipherpeer.New(t, urlA), b: sipherpeer.New(t, urlB), p: sipherpeer.New(t, urlP), net: sipherpeer.NewNetwork()}
		for _, p := range []*sipherpeer.Peer{w.b, w.p} {
			p.Through(w.net)
			w.net.Join(p)
		}
		settings := w.a.Settings()
		settings["QUEUE_TYPE"] = string(typ)
		maps.Copy(settings, o.settings)
		o.settings = settings
		w.fedpost = start(t, w.net, o)
		w.net.Serve(urlA, w.api)
		test(t, w)
	})
}

// acquainted registers us and a peer with each other.
func (w *world) acquainted(ps ...*sipherpeer.Peer) {
	w.t.Helper()
	for _, p := range ps {
		p.Know(urlA, w.a.PublicKey(), w.a.EncryptionKey())
		if err := w.store.Sipher().SetKeys(w.t.Context(), p.URL, p.PublicKey(), p.EncryptionKey(), time.Now()); err != nil {
			w.t.Fatal(err)
		}
		if err := w.store.Sipher().Announce(w.t.Context(), p.URL, true); err != nil {
			w.t.Fatal(err)
		}
	}
}

// options of a fedpost.
type options struct {
	settings map[string]string
	token    string
	// table wraps the engine's.
	table func(table.Table) table.Table
	// messages of each queue that are under way at once; 0: as in production.
	messages int
	// lambda: each invocation is in a process of its own, as on Lambda.
	lambda bool
}

// fedpost is one whole deployment: the API, the event sources of all queues,
// and the schedule.
type fedpost struct {
	*client.Client
	t      testing.TB
	api    *api.API
	engine *sqlite.Engine
	store  *store.Store
	log    *sipherpeer.Log
	stop   func() // ends event sources and schedule; the API goes on
}

func start(t testing.TB, network http.RoundTripper, o options) *fedpost {
	t.Helper()
	f := &fedpost{t: t, log: &sipherpeer.Log{}}
	var settings config.Local
	if err := config.From(&settings, o.settings); err != nil {
		t.Fatal(err)
	}
	configs := map[queue.Name]queue.Config{}
	for _, n := range queue.Names {
		q := topology.Of(n)
		configs[n] = queue.Config{Visibility: q.Visibility, MaxReceives: q.MaxReceives, Retention: q.Retention}
	}
	var err error
	if f.engine, err = sqlite.Open(context.Background(), sqlite.Memory, sqlite.Options{Queues: configs, Type: settings.Queueing.Type}); err != nil {
		t.Fatal(err)
	}
	sealer, err := keys.OpenLocalSealer(filepath.Join(t.TempDir(), "sealing.key"))
	if err != nil {
		t.Fatal(err)
	}
	ports := app.Ports{
		Table: f.engine.Table(), Queue: f.engine.Queue, Sealer: sealer, Transport: network,
		Log: slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	f.store = store.New(ports.Table, time.Now)
	if o.table != nil {
		ports.Table = o.table(ports.Table)
	}
	if f.api, err = app.API(settings.Enqueue(), config.Access{Token: o.token}, ports); err != nil {
		t.Fatal(err)
	}
	front := sipherpeer.NewNetwork()
	front.Serve(urlA, f.api)
	f.Client = caller.Of(f.t, urlA, client.Token(o.token), caller.Through(front))
	f.work(settings, ports, o)
	t.Cleanup(func() {
		f.stop()
		if err := f.engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// work starts what Lambda and EventBridge do.
func (f *fedpost) work(settings config.Local, ports app.Ports, o options) {
	f.t.Helper()
	process := func() local.Handler {
		deliver, err := app.Deliver(settings.Deliver(), ports)
		if err != nil {
			f.t.Fatal(err)
		}
		return deliver.Handle
	}
	one := process()
	checks, err := app.HealthCheck(settings.HealthCheck(), ports)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, n := range topology.Sources {
		q := topology.Of(n)
		m := local.Mapping{
			Queue: f.engine.Queue(n), Name: n, BatchSize: q.BatchSize, Messages: cmp.Or(o.messages, local.Messages),
			Timeout: topology.Deliver.Timeout, Handler: one, Log: ports.Log,
		}
		if !o.lambda {
			running.Go(func() { m.Run(ctx) })
			continue
		}
		for range q.Concurrency {
			alone := m
			alone.Messages, alone.Handler = 1, process()
			running.Go(func() { alone.Run(ctx) })
		}
	}
	running.Go(func() {
		tick := time.NewTicker(topology.HealthCheckEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			call, done := context.WithTimeout(ctx, topology.HealthCheck.Timeout)
			if err := checks.Run(call); err != nil && ctx.Err() == nil {
				ports.Log.Error("scheduled run", "error", err)
			}
			done()
		}
	})
	f.stop = func() {
		cancel()
		running.Wait()
	}
}

// brief describes a value for a failing test within a few lines.
func brief(v any) string { return engineworld.Brief(v) }

// pass lets time pass.
func pass(d time.Duration) { <-time.After(d) }

// job is a Sipher job for B.
func job(name, path, payload string) client.Submission {
	return client.Submission{Protocol: "sipher", Job: name, ServerURL: urlB, Recipients: client.To(urlB + path), Payload: payload}
}

// Payloads as servers write them. The white space and the spelling of the
// escapes have to arrive as they are.
const (
	followPayload = `{"following":{"id":"f1","followerId":"alice","followingId":"bob","accepted":false,"createdAt":"2026-05-06T14:17:40.000Z","followerServerUrl":"https://b.example","followingServerUrl":null,"acknowledged":false}, "federationUrl":"https://a.example","method":"FEDERATE"}`
	postPayload   = `{"method":"FEDERATE_POST","federationUrl":"https://a.example","post":{"id":"p1","content":[{"type":"text","value":"<b>caf\u00e9</b> & Tee ☕"}],"authorId":"alice","published":"2026-05-06T14:17:40.000Z","isPrivate":false}}`
)

func followJob() client.Submission {
	return job("deliver-follow", sipherpeer.FollowsPath, followPayload)
}
func postJob() client.Submission { return job("deliver-post", sipherpeer.PostsPath, postPayload) }

// nthPost is one of many posts.
func nthPost(n int) client.Submission {
	s := postJob()
	s.Payload = strings.Replace(s.Payload, `"p1"`, fmt.Sprintf(`"post-%d"`, n), 1)
	return s
}

// send submits a job and returns its id.
func (f *fedpost) send(s client.Submission) string {
	f.t.Helper()
	a, err := f.Client.Send(f.t.Context(), s)
	if err != nil {
		f.t.Fatal(err)
	}
	return a.ID
}

// recipient is a recipient with all that the API shows.
type recipient struct {
	client.RecipientStatus
	Response string `json:"response"`
	Note     string `json:"note"`
}

// look returns what the API shows of a job's one recipient.
func (f *fedpost) look(id string) recipient {
	f.t.Helper()
	var v struct{ Recipients []recipient }
	f.get("/v1/activities/"+id, &v)
	if len(v.Recipients) != 1 {
		f.t.Fatalf("%d recipients of job %s", len(v.Recipients), id)
	}
	return v.Recipients[0]
}

func (f *fedpost) get(path string, v any) {
	f.t.Helper()
	if err := f.Do(f.t.Context(), http.MethodGet, path, nil, v); err != nil {
		f.t.Fatal(err)
	}
}

// ends lets time pass until a job has ended, and returns it.
func (f *fedpost) ends(id string) recipient {
	f.t.Helper()
	open := []string{"queued", "retrying", "parked"}
	began := time.Now()
	for range 100_000 {
		if r := f.look(id); !slices.Contains(open, r.State) {
			return r
		}
		// A look costs the machine more than all that happens in an idle second.
		every := 100 * time.Millisecond
		if time.Since(began) > 20*time.Second {
			every = 2 * time.Second
		}
		pass(every)
	}
	f.t.Fatalf("job %s never ends: %s", id, brief(f.look(id)))
	return recipient{}
}

// server returns what the API shows of a Sipher server.
func (f *fedpost) server(url string) client.Server {
	f.t.Helper()
	var v client.Server
	f.get("/v1/servers/"+strings.NewReplacer(":", "%3A", "/", "%2F").Replace(url), &v)
	return v
}

func (f *fedpost) follows() []follow.Follow {
	f.t.Helper()
	var v struct{ Follows []follow.Follow }
	f.get("/v1/follows", &v)
	return v.Follows
}

// dead counts the messages in the dead-letter queues.
func (f *fedpost) dead() int {
	f.t.Helper()
	n := 0
	for _, q := range []queue.Name{queue.Dead, queue.DeadOrdered} {
		d, err := f.engine.Queue(q).Depth(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		n += d.Visible + d.InFlight + d.Delayed
	}
	return n
}

// logged returns the log's lines with a message.
func (f *fedpost) logged(message string) []map[string]any {
	f.t.Helper()
	return f.log.Lines(f.t, message)
}
