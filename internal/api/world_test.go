package api_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/api"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/keys"
	"fedpost/internal/ledger"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/activitypub"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/store"
)

const keyID = "https://social.example/users/frida#main-key"

var discard = slog.New(slog.DiscardHandler)

// world is the API on the embedded engine.
type world struct {
	*testing.T
	engine *sqlite.Engine
	store  *store.Store
	api    *api.API
	clock  time.Time
	log    strings.Builder
	ids    int
}

// records is the ledger.
type records struct {
	*store.Store
	now func() time.Time
}

func (r records) View(ctx context.Context, id activity.ID, f ledger.RecipientFilter, cursor string, limit int) (ledger.View, error) {
	return ledger.SelectView(ctx, r, id, f, cursor, limit, r.now())
}

func newWorld(t *testing.T, change ...func(*api.Options)) *world {
	t.Helper()
	w := &world{T: t, clock: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	now := func() time.Time { return w.clock }
	var err error
	w.engine, err = sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.engine.Close(); err != nil {
			t.Error(err)
		}
	})
	w.store = store.New(w.engine.Table(), now)
	sealer, err := keys.OpenLocalSealer(filepath.Join(t.TempDir(), "sealing.key"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewJSONHandler(&w.log, nil))
	ring := keys.New(w.store, sealer, keys.Options{Now: now})
	federation := sipher.Register(nil, sipher.Bounds{})
	federation.Intake.Recorder = nil
	protocols := protocol.Set{activitypub.Register(nil, retry.ActivityPub()), federation}
	queues := map[queue.Name]queue.Sender{}
	for _, n := range []queue.Name{queue.High, queue.Normal, queue.Low, queue.Ordered} {
		queues[n] = w.engine.Queue(n)
	}
	o := api.Options{
		Protocols: protocols,
		Enqueuer: enqueue.New(enqueue.Options{
			Protocols: protocols,
			Queues:    queues, Ledger: w.store, Payloads: w.store, Agenda: w.store, Keys: ring,
			Markers: dedup.New(w.store, dedup.Options{Now: now, Entropy: rand.Reader, Log: log}),
			Now:     now, Entropy: rand.Reader, Log: log,
		}),
		Keys: ring, Activities: records{w.store, now},
		Now: now, Log: log,
		RequestID: func() string { w.ids++; return fmt.Sprintf("request-%d", w.ids) },
	}
	for _, c := range change {
		c(&o)
	}
	w.api = api.New(o)
	return w
}

type response struct {
	Status int
	Header http.Header
	Body   string
}

// json reads the answer's body.
func (r response) json(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(r.Body), &v); err != nil {
		t.Fatalf("answer %d is not JSON: %v: %s", r.Status, err, r.Body)
	}
	return v
}

// do sends one request; headers are pairs of name and value.
func (w *world) do(method, target, body string, headers ...string) response {
	w.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, target, in)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		} else {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	rec := httptest.NewRecorder()
	w.api.ServeHTTP(rec, r)
	res := response{rec.Code, rec.Result().Header, rec.Body.String()}
	path, _, _ := strings.Cut(target, "?")
	w.hold(method, path, r.Header.Get("Content-Type"), body, res)
	return res
}

// withKey stores the signing key that most requests name. Ed25519, because it
// costs nothing to make.
func (w *world) withKey() *world {
	w.Helper()
	res := w.do("POST", "/v1/keys", `{"id":"`+keyID+`","type":"ed25519"}`)
	if res.Status != http.StatusCreated {
		w.Fatalf("making a key: %d %s", res.Status, res.Body)
	}
	return w
}

const note = `{"@context":"https://www.w3.org/ns/activitystreams","type":"Create","actor":"https://social.example/users/frida","object":{"type":"Note","content":"<p>Grüße &amp; 🐘</p>"}}`

// submission is a valid request, with further fields such as `"delay":60`.
func submission(more ...string) string {
	return `{"activity":` + note + `,"keyId":"` + keyID + `","recipients":["https://a.example/inbox","https://b.example/inbox"]` +
		strings.Join(append([]string{""}, more...), ",") + `}`
}

// received takes everything visible off a queue.
func (w *world) received(n queue.Name) []queue.Received {
	w.Helper()
	var all []queue.Received
	for {
		got, err := w.engine.Queue(n).Receive(w.Context(), queue.ReceiveOptions{Max: 10, Visibility: time.Hour})
		if err != nil {
			w.Fatal(err)
		}
		if len(got) == 0 {
			return all
		}
		all = append(all, got...)
	}
}
