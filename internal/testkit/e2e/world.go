package e2e

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/app/config"
	"fedpost/internal/testkit/caller"
	"fedpost/internal/testkit/cost"
	"fedpost/internal/testkit/fediverse"

	"fedpost/internal/app"
	"fedpost/internal/app/local"
	"fedpost/internal/engine/queue"
	"fedpost/internal/keys"
)

// Hasty are settings that shorten what would take minutes: a time-out is 5 s,
// the first wait 0.2 s, a check is due after 1 s.
var Hasty = map[string]string{
	"DELIVERY_TIMEOUT": "5s",
	"RETRY_FIRST_WAIT": "200ms", "RETRY_FACTOR": "1.5",
	"CHECK_FIRST": "1s", "CHECK_STEP": "1s", "CHECK_SLOW": "2s", "RELEASE_EVERY": "1s",
}

// Options of a world.
type Options struct {
	// Settings go beside Hasty, and before it where they name the same.
	Settings map[string]string
	// Every is the period of the scheduled function; 0 is half a second.
	Every time.Duration
	// QueueType is the setting QUEUE_TYPE; empty for its default.
	QueueType queue.Type
	// Flush is app.Ports.Flush.
	Flush time.Duration
}

// World is fedpost on an engine, with a client of its API.
type World struct {
	*client.Client
	Engine Engine
	Type   queue.Type // of the queues

	t         testing.TB
	ports     Ports
	estimated *cost.Estimate
	mu        sync.Mutex
	keys      publicKeys
	url       string
	transport *http.Transport
}

// KeyID is the signing key that every world has.
const KeyID = fediverse.RSAKeyID

// Open starts a world. It ends with the test.
func Open(t testing.TB, e Engine, o Options) *World {
	t.Helper()
	environ := maps.Clone(Hasty)
	maps.Copy(environ, o.Settings)
	if o.QueueType != "" {
		environ["QUEUE_TYPE"] = string(o.QueueType)
	}
	var settings config.Local
	if err := config.From(&settings, environ); err != nil {
		t.Fatal(err)
	}
	w := &World{Engine: e, Type: settings.Queueing.Type, t: t, ports: e.open(t, settings.Queueing.Kind()), estimated: cost.NewEstimate(), keys: publicKeys{}}
	if o.Every == 0 {
		o.Every = 500 * time.Millisecond
	}
	// Time for an attempt, for another, and for what the engine keeps back to
	// write records.
	timeout := 2*settings.Outbound.Timeout + 5*time.Second
	server := w.start(settings, o, timeout)
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	w.url, w.transport = server.URL, transport
	w.Client = caller.Of(t, server.URL, caller.Through(transport))
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), timeout+5*time.Second)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	w.AddKey(KeyID, PrivatePEM(t, KeyID))
	return w
}

func (w *World) start(s config.Local, o Options, timeout time.Duration) *local.Server {
	w.t.Helper()
	sealer, err := keys.OpenLocalSealer(filepath.Join(w.t.TempDir(), "sealing.key"))
	if err != nil {
		w.t.Fatal(err)
	}
	queues := map[queue.Name]queue.Queue{}
	for _, n := range queue.Names {
		queues[n] = cost.EstimateQueue(w.estimated, w.ports.Queue(n))
	}
	log := failureLog(w.t)
	ports := app.Ports{
		Table:  cost.EstimateTable(w.estimated, w.ports.Table),
		Queue:  func(n queue.Name) queue.Queue { return queues[n] },
		Sealer: sealer, AllowPrivate: true, PerQueue: local.PerQueue, Flush: o.Flush, Log: log,
	}
	ports.Tally, ports.Keys = ports.NewTally(), ports.NewRing()
	api, err := app.API(s.Enqueue(), s.Access, ports)
	if err != nil {
		w.t.Fatal(err)
	}
	deliver, err := app.Deliver(s.Deliver(), ports)
	if err != nil {
		w.t.Fatal(err)
	}
	health, err := app.HealthCheck(s.HealthCheck(), ports)
	if err != nil {
		w.t.Fatal(err)
	}
	server, err := local.Start(local.Options{
		Listen: local.ListenConfig{Listen: "127.0.0.1:0"}, Queue: ports.Queue,
		Sweep: func(ctx context.Context) error {
			if w.ports.Sweep == nil {
				return ports.Tally.Settle(ctx)
			}
			return errors.Join(w.ports.Sweep(ctx), ports.Tally.Settle(ctx))
		},
		Services: local.Services{API: api, Deliver: deliver.Handle, Ready: deliver.Ready, HealthCheck: health.Run},
		Timeout:  timeout, Every: o.Every, Messages: w.Engine.Messages, Log: log,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return server
}

// AddKey stores a signing key. Remotes that are started later know its public
// half, as the API says it.
func (w *World) AddKey(id, privatePEM string) client.Key {
	w.t.Helper()
	k, err := w.PutKey(w.t.Context(), id, privatePEM)
	if err != nil {
		w.t.Fatal(err)
	}
	w.know(k.Key)
	return k.Key
}

func (w *World) know(k client.Key) {
	w.t.Helper()
	block, _ := pem.Decode([]byte(k.PublicKeyPEM))
	if block == nil {
		w.t.Fatalf("the public key of %s is no PEM: %q", k.ID, k.PublicKeyPEM)
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys[k.ID] = public
}

// PrivatePEM is one of the keys of testkit/fediverse as PKCS#8.
func PrivatePEM(t testing.TB, id string) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(fediverse.NewKeys()[id])
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// Send submits an activity and returns its id.
func (w *World) Send(body string, recipients ...string) string {
	w.t.Helper()
	return w.Accept(client.Submission{Activity: json.RawMessage(body), Recipients: client.To(recipients...), AllowKeyOfOther: true}).ID
}

// Accept submits s, with the world's key if it names none, and expects it to be
// accepted.
func (w *World) Accept(s client.Submission) client.Accepted {
	w.t.Helper()
	if s.KeyID == "" {
		s.KeyID = KeyID
	}
	a, err := w.Client.Send(w.t.Context(), s)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// Patience returns how long to wait on this engine for work that takes an engine in
// memory d.
func (w *World) Patience(d time.Duration) time.Duration {
	if w.Engine.Remote {
		return 4 * d
	}
	return d
}

// Ends waits until the recipients of an activity are in the states that want
// counts, and returns what the API says of it.
func (w *World) Ends(id string, want map[string]int) client.Status {
	w.t.Helper()
	return w.EndsWithin(time.Minute, id, want)
}

// EndsWithin is Ends with a time.
func (w *World) EndsWithin(d time.Duration, id string, want map[string]int) client.Status {
	w.t.Helper()
	var s client.Status
	Await(w.t, w.Patience(d), fmt.Sprintf("activity %s in states %v", id, want), func() (bool, string) {
		var err error
		if s, err = w.Activity(w.t.Context(), id); err != nil {
			return false, err.Error()
		}
		return maps.Equal(s.Counts, want), describe(s)
	})
	return s
}

// describe sums up a status with the first recipients that are not delivered.
func describe(s client.Status) string {
	text, n := fmt.Sprintf("%s %v", s.Status, s.Counts), 0
	for _, r := range s.Recipients {
		if r.State != "delivered" && n < 3 {
			n++
			text += fmt.Sprintf("; %s is %s after %d attempts: %d %s", r.Inbox, r.State, r.Attempts, r.LastStatus, r.LastError)
		}
	}
	return text
}

// Everyone lists all recipients of an activity, page by page.
func (w *World) Everyone(id string) []client.RecipientStatus {
	w.t.Helper()
	var all []client.RecipientStatus
	for r, err := range w.Recipients(w.t.Context(), id, client.RecipientQuery{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// Estimated is what the calls of the ports would have cost so far.
func (w *World) Estimated() cost.Snapshot { return w.estimated.Snapshot() }

// Used is what was used so far: what AWS says, on an engine that says so, and
// what the calls of the ports amount to otherwise.
func (w *World) Used() cost.Snapshot {
	if w.ports.Metered != nil {
		return w.ports.Metered()
	}
	return w.Estimated()
}

// Depths counts the messages on all queues.
func (w *World) Depths() map[queue.Name]queue.Depth {
	w.t.Helper()
	all := map[queue.Name]queue.Depth{}
	for _, n := range queue.Names {
		d, err := w.ports.Queue(n).Depth(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		all[n] = d
	}
	return all
}

// failureLog keeps what is logged, and shows it if the test fails: most
// scenarios are about failures, and their logs would hide those of the test.
func failureLog(t testing.TB) *slog.Logger {
	b := &lines{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last lines of the log:\n%s", b.last(40))
		}
	})
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type lines struct {
	mu  sync.Mutex
	all [][]byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all = append(l.all, bytes.Clone(p)); len(l.all) > 2000 {
		l.all = slices.Clone(l.all[1000:])
	}
	return len(p), nil
}

func (l *lines) last(n int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Join(l.all[max(0, len(l.all)-n):], nil)
}
