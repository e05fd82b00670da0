package protocol_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/api"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/healthcheck"
	"fedpost/internal/ledger"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/activitypub"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/store"
	"fedpost/internal/testkit/world"
)

// pigeon is a protocol that only this test has. It records its calls.
type pigeon struct{ calls []string }

const pigeons activity.Protocol = "pigeon"

func (p *pigeon) register() protocol.Protocol {
	return protocol.Protocol{
		Name: pigeons,
		Intake: protocol.Intake{
			Body: protocol.Text, Missing: "give the letter", Inspector: p, Recorder: p, Single: true,
			Fields: []protocol.Field{protocol.ServerURL}, Signs: "with wax",
		},
		Delivery: protocol.Delivery{Sender: p, Policy: retry.Sipher()},
		Upkeep:   p,
		Public: map[string]http.Handler{"GET /loft": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			p.call("asked for the loft")
		})},
	}
}

func (p *pigeon) call(format string, args ...any) {
	p.calls = append(p.calls, fmt.Sprintf(format, args...))
}

func (p *pigeon) Inspect(body string) (protocol.Content, []protocol.Fault) {
	if strings.TrimSpace(body) == "" {
		return protocol.Content{}, []protocol.Fault{{Detail: "is blank"}}
	}
	return protocol.Content{Type: "Letter"}, nil
}

func (p *pigeon) Record(_ context.Context, a activity.Activity, t activity.Target) error {
	p.call("recorded %q to %s", a.Body, t.Inbox)
	return nil
}

func (p *pigeon) Prepare(_ context.Context, a activity.Activity) protocol.Attempt {
	return func(_ context.Context, t activity.Target, n int) outcome.Outcome {
		p.call("sent %q to %s of %s, attempt %d", a.Body, t.Inbox, a.ServerURL, n)
		if n == 1 {
			return outcome.Outcome{Class: outcome.Retry, Err: "hawk"}
		}
		return outcome.Outcome{Class: outcome.Delivered}
	}
}

func (p *pigeon) Check(context.Context, time.Time) error {
	p.call("checked")
	return nil
}

// records is the ledger as the API shows it.
type records struct {
	*store.Store
	now func() time.Time
}

func (r records) View(ctx context.Context, id activity.ID, f ledger.RecipientFilter, cursor string, limit int) (ledger.View, error) {
	return ledger.SelectView(ctx, r, id, f, cursor, limit, r.now())
}

// known are all keys.
type known struct{}

func (known) Known(context.Context, string) (bool, error) { return true, nil }

// TestAThirdProtocolIsItsPackageAndOneRegistration: nothing else knows of it, and
// still its activities go from the API to the wire, and its scheduled work is done.
func TestAThirdProtocolIsItsPackageAndOneRegistration(t *testing.T) {
	w, p := world.New(t, world.Options{}), &pigeon{}
	set := protocol.Set{activitypub.Register(nil, retry.ActivityPub()), p.register()}
	log := slog.New(slog.DiscardHandler)

	queues := map[queue.Name]queue.Sender{}
	for _, n := range queue.Names {
		queues[n] = w.Engine.Queue(n)
	}
	accept := enqueue.New(enqueue.Options{
		Protocols: set, Queues: queues, Ledger: w.Store, Payloads: w.Store, Agenda: w.Store, Keys: known{},
		Markers: dedup.New(w.Store, dedup.Options{Now: w.Now, Entropy: rand.Reader, Log: log}),
		Now:     w.Now, Entropy: rand.Reader, Log: log,
	})
	var public []api.Route
	for pattern, h := range set[1].Public {
		public = append(public, api.Route{Pattern: pattern, Handler: h, Public: true})
	}
	face := api.New(api.Options{
		Enqueuer: accept, Activities: records{w.Store, w.Now}, Protocols: set, Routes: public, Tokens: api.Tokens{Operate: "secret"},
		Now: w.Now, RequestID: rand.Text, Log: log,
	})
	config := w.Config()
	config.Protocols = set
	w.Deliver = deliver.New(config)
	w.Checks = healthcheck.New(healthcheck.Config{Protocols: set, Servers: w.Store, Lot: config.Lot, Prober: w.Servers, Log: log, Meter: config.Meter, Now: w.Now})

	do := func(method, path, body, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		rec := httptest.NewRecorder()
		face.ServeHTTP(rec, r)
		return rec
	}
	var accepted struct{ ID string }
	rec := do("POST", "/v1/activities", `{"protocol":"pigeon","payload":"coo","serverUrl":"https://loft.example","recipients":["https://loft.example/1"]}`, "secret")
	if err := json.Unmarshal(rec.Body.Bytes(), &accepted); err != nil || rec.Code != http.StatusAccepted {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	w.Poll(queue.Normal)
	w.Clock.Advance(time.Minute)
	w.Poll(queue.Normal)
	var status struct{ Counts map[string]int }
	if err := json.Unmarshal(do("GET", "/v1/activities/"+accepted.ID, "", "secret").Body.Bytes(), &status); err != nil || status.Counts["delivered"] != 1 {
		t.Errorf("counts %v, %v", status.Counts, err)
	}
	if err := w.Checks.Run(t.Context()); err != nil {
		t.Error(err)
	}
	do("GET", "/loft", "", "")
	want := []string{
		`recorded "coo" to https://loft.example/1`,
		`sent "coo" to https://loft.example/1 of https://loft.example, attempt 1`,
		`sent "coo" to https://loft.example/1 of https://loft.example, attempt 2`,
		"checked",
		"asked for the loft",
	}
	if !slices.Equal(p.calls, want) {
		t.Errorf("calls %q, want %q", p.calls, want)
	}

	for body, says := range map[string]string{
		`{"protocol":"pigeon","payload":" ","serverUrl":"https://loft.example","recipients":["https://loft.example/1"]}`:             "is blank",
		`{"protocol":"pigeon","activity":{},"serverUrl":"https://loft.example","recipients":["https://loft.example/1"]}`:             "give the letter",
		`{"protocol":"pigeon","payload":"x","keyId":"k","serverUrl":"https://loft.example","recipients":["https://loft.example/1"]}`: "signs with wax",
		`{"protocol":"pigeon","payload":"x","job":"fly","serverUrl":"https://loft.example","recipients":["https://loft.example/1"]}`: "/job",
		`{"protocol":"owl","activity":{},"recipients":["https://loft.example/1"]}`:                                                   `pigeon`,
	} {
		if rec := do("POST", "/v1/activities", body, "secret"); rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), says) {
			t.Errorf("%s: %d %s, want %q", body, rec.Code, rec.Body, says)
		}
	}
}

// TestAProtocolOfOursIsNotForOthers: events, say, are delivered by a protocol that
// no caller may ask for.
func TestAProtocolOfOursIsNotForOthers(t *testing.T) {
	p := (&pigeon{}).register()
	p.Intake.Body = protocol.None
	set := protocol.Set{activitypub.Register(nil, retry.ActivityPub()), p}
	if got := set.Offered(); !slices.Equal(got, []activity.Protocol{activity.ActivityPub}) {
		t.Errorf("offered are %v", got)
	}
	face := api.New(api.Options{
		Enqueuer: enqueue.New(enqueue.Options{Protocols: set, Keys: known{}, Now: time.Now, Entropy: rand.Reader}), Protocols: set,
		Now: time.Now, RequestID: rand.Text, Log: slog.New(slog.DiscardHandler),
	})
	r := httptest.NewRequest("POST", "/v1/activities", strings.NewReader(`{"protocol":"pigeon","recipients":["https://loft.example/1"]}`))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	face.ServeHTTP(rec, r)
	if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "not for requests of the API") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}
