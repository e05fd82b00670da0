package operator_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/app"
	"fedpost/internal/app/config"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/engine/table"
	"fedpost/internal/keys"
	"fedpost/internal/ledger/stats"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/store"
	"fedpost/internal/testkit/openapi"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// description is docs/openapi.yaml, which every answer here is held against.
var description = sync.OnceValues(func() (*openapi.Document, error) { return openapi.Load("../../../docs/openapi.yaml") })

const token = "a token of these tests"

// world is the whole API on the embedded engine.
type world struct {
	testing.TB
	engine *sqlite.Engine
	store  *store.Store
	clock  time.Time
	api    http.Handler
	broken broken
	tally  *stats.Tally
}

// broken is a table that can be out of reach.
type broken struct {
	table.Table
	down *bool
	puts *atomic.Int64 // how often somebody tried to put an item
}

var errDown = errors.New("the table is out of reach")

func (b broken) Get(ctx context.Context, wanted ...table.Key) (map[table.Key]table.Item, error) {
	if *b.down {
		return nil, errDown
	}
	return b.Table.Get(ctx, wanted...)
}

func (b broken) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	if *b.down {
		return nil, false, errDown
	}
	return b.Table.Query(ctx, r)
}

func (b broken) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	b.puts.Add(1)
	if *b.down {
		return errDown
	}
	return b.Table.Put(ctx, it, cond)
}

func (b broken) Delete(ctx context.Context, k table.Key, cond table.Cond) error {
	if *b.down {
		return errDown
	}
	return b.Table.Delete(ctx, k, cond)
}

// newWorld returns a world whose ports change adapts.
func newWorld(t testing.TB, change ...func(*app.Ports)) *world {
	t.Helper()
	w := &world{TB: t, clock: start}
	now := func() time.Time { return w.clock }
	var err error
	w.engine, err = sqlite.Open(context.Background(), sqlite.Memory, sqlite.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.engine.Close(); err != nil {
			t.Error(err)
		}
	})
	w.store = store.New(w.engine.Table(), now)
	w.broken = broken{w.engine.Table(), new(bool), new(atomic.Int64)}
	sealer, err := keys.OpenLocalSealer(filepath.Join(t.TempDir(), "sealing.key"))
	if err != nil {
		t.Fatal(err)
	}
	var settings config.Local
	if err := config.From(&settings, nil); err != nil {
		t.Fatal(err)
	}
	w.tally = stats.NewTally(w.store, "of these tests", now)
	ports := app.Ports{
		Tally: w.tally, Table: w.broken, Queue: w.engine.Queue, Sealer: sealer, Now: now, Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&ports)
	}
	w.api, err = app.API(settings.Enqueue(), config.Access{Token: token}, ports)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do makes a request and holds both sides of it against the description.
func (w *world) do(method, path, body string) answer {
	w.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, path, in)
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	rec := httptest.NewRecorder()
	w.api.ServeHTTP(rec, r)
	a := answer{rec.Code, rec.Result().Header, rec.Body.Bytes()}
	d, err := description()
	if err != nil {
		w.Fatal(err)
	}
	op := d.Find(method, r.URL.EscapedPath())
	if op == nil {
		w.Fatalf("%s %s is not described", method, path)
	}
	if err := op.CheckAnswer(a.status, a.header.Get("Content-Type"), a.body); err != nil {
		w.Error(err)
	}
	if a.status < 300 {
		if err := op.CheckRequest(r.Header.Get("Content-Type"), []byte(body)); err != nil {
			w.Errorf("accepted, but not described so: %v", err)
		}
	}
	return a
}

// must makes a request that has to succeed, and reads its answer.
func (w *world) must(method, path, body string, out any) {
	w.Helper()
	a := w.do(method, path, body)
	if a.status >= 300 {
		w.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	reflect.ValueOf(out).Elem().SetZero()
	dec := json.NewDecoder(bytes.NewReader(a.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(out); err != nil {
		w.Fatal(err)
	}
}

// refused checks that a request is refused with a status and words.
func (w *world) refused(status int, says, method, path, body string) {
	w.Helper()
	a := w.do(method, path, body)
	if a.status != status || !strings.Contains(string(a.body), says) {
		w.Errorf("%s %s %s: %d %s, want %d with %q", method, path, body, a.status, a.body, status, says)
	}
	if status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "" {
		w.Errorf("%s %s: no Retry-After", method, path)
	}
}

// outage runs f while the table is out of reach.
func (w *world) outage(f func()) {
	*w.broken.down = true
	defer func() { *w.broken.down = false }()
	f()
}

// change changes the circuit of a server as workers do.
func (w *world) change(key string, f func(circuit.State) circuit.State) {
	w.Helper()
	if _, _, err := circuit.Change(context.Background(), w.store, key, f); err != nil {
		w.Fatal(err)
	}
}

// state is the circuit of a server.
func (w *world) state(key string) circuit.State {
	w.Helper()
	s, err := circuit.Load(context.Background(), w.store, key)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) newID() activity.ID {
	id, err := activity.NewID(w.clock, rand.Reader)
	if err != nil {
		w.Fatal(err)
	}
	return id
}

func (w *world) receive(n queue.Name) []queue.Received {
	w.Helper()
	got, err := w.engine.Queue(n).Receive(context.Background(), queue.ReceiveOptions{Max: 10, Visibility: time.Hour})
	if err != nil {
		w.Fatal(err)
	}
	return got
}

func server(name string) string { return "/v1/servers/" + url.PathEscape(name) }

func TestOperatorsAuthenticateLikeEverybody(t *testing.T) {
	w := newWorld(t)
	d, err := description()
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range d.Operations() {
		if op.Public() {
			continue
		}
		rec := httptest.NewRecorder()
		w.api.ServeHTTP(rec, httptest.NewRequest(op.Method, strings.ReplaceAll(op.Path, "{host}", "a.example"), nil))
		if rec.Code != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", op, rec.Code)
		}
	}
}

// unsupported sends a body without saying what it is.
func (w *world) unsupported(method, path, says string) {
	w.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(`{}`))
	r.Header.Set("Authorization", "Bearer "+token)
	rec := httptest.NewRecorder()
	w.api.ServeHTTP(rec, r)
	if rec.Code != http.StatusUnsupportedMediaType || !strings.Contains(rec.Body.String(), says) {
		w.Errorf("%s %s: %d %s", method, path, rec.Code, rec.Body)
	}
}
