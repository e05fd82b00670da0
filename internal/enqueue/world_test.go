package enqueue_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	mrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/message"
	"fedpost/internal/message/agenda"
	"fedpost/internal/message/claimcheck"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/activitypub"
	"fedpost/internal/protocol/retry"
	siphers "fedpost/internal/protocol/sipher"
	"fedpost/internal/store"
	"fedpost/internal/testkit/cost"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
)

const (
	keyID = "https://social.example/users/frida#main-key"
	note  = `{"type":"Create","actor":"https://social.example/users/frida","object":{"type":"Note","content":"<p>Grüße &amp; 🐘</p>"}}`
)

var (
	discard = slog.New(slog.NewTextHandler(io.Discard, nil))
	// noon is the start of a deduplication period.
	noon    = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	sending = []queue.Name{queue.High, queue.Normal, queue.Low, queue.Ordered}
)

// protocols holds fedpost's protocols. The Sipher protocol has no recorder here.
var protocols = protocol.Set{
	activitypub.Register(nil, retry.ActivityPub()),
	withRecorder(siphers.Register(nil, siphers.Bounds{}), nil),
}

func withRecorder(p protocol.Protocol, r protocol.Recorder) protocol.Protocol {
	p.Intake.Recorder = r
	return p
}

// world is the service on an engine. A plan counts all calls and can break each
// of them.
type world struct {
	*testing.T
	engine  engines.Instance
	plan    *faults.Plan
	cost    *cost.Estimate // AWS requests since the last restart
	clock   time.Time
	store   *store.Store // its calls go through the plan
	truth   *store.Store // its calls bypass the plan
	counted *counted
	service *enqueue.Service
	release *agenda.Releaser

	change   []option
	restarts int
}

type keys map[string]bool

func (k keys) Known(_ context.Context, id string) (bool, error) { return k[id], nil }

// option changes a world before its service is built.
type option func(*settings)

type settings struct {
	dedup   dedup.Options
	enqueue enqueue.Options
	// maxMessage, if set, is the size in bytes up to which messages need no claim
	// check.
	maxMessage int
	ledger     enqueue.Ledger // nil: the store
}

func newWorld(t *testing.T, p *faults.Plan, change ...option) *world {
	t.Helper()
	return newWorldOn(t, engines.Default(), p, change...)
}

func newWorldOn(t *testing.T, e engines.Engine, p *faults.Plan, change ...option) *world {
	t.Helper()
	w := &world{T: t, clock: noon.Add(2 * time.Minute), change: change}
	w.engine = e.Open(t, engines.Options{Now: w.now})
	w.restart(p)
	return w
}

// restart builds everything but the engine anew, around another plan.
func (w *world) restart(p *faults.Plan) {
	w.plan, w.cost, w.counted = p, cost.NewEstimate(), &counted{}
	queues, items := w.engine.Under(p)
	senders := map[queue.Name]queue.Sender{}
	for _, n := range sending {
		senders[n] = cost.EstimateQueue(w.cost, queues(n))
	}
	entropy := mrand.NewChaCha8([32]byte{byte(w.restarts)})
	w.restarts++
	s := settings{
		dedup:   dedup.Options{Now: w.now, Entropy: entropy, Log: discard, Counted: w.counted.Counted},
		enqueue: enqueue.Options{Protocols: protocols, Queues: senders, Keys: keys{keyID: true}, Now: w.now, Entropy: entropy, Log: discard},
	}
	for _, c := range w.change {
		c(&s)
	}
	w.store, w.truth = store.New(cost.EstimateTable(w.cost, items), w.now), store.New(w.engine.Table(), w.now)
	s.enqueue.Ledger, s.enqueue.Payloads, s.enqueue.Agenda, s.enqueue.Markers = w.store, w.store, w.store, dedup.New(w.store, s.dedup)
	if s.ledger != nil {
		s.enqueue.Ledger = s.ledger
	}
	w.service = enqueue.New(s.enqueue)
	if s.maxMessage > 0 {
		enqueue.LimitMessages(w.service, s.maxMessage)
	}
	w.release = &agenda.Releaser{Store: w.store, Queues: s.enqueue.Queues, Released: enqueue.Superseding{Coalescer: s.enqueue.Coalescer, Payloads: w.store, Log: discard}.Released, Log: discard}
}

func (w *world) now() time.Time { return w.clock }

func (w *world) wait(d time.Duration) { w.clock = w.clock.Add(d) }

// request returns a valid request.
func request(change ...func(*enqueue.Request)) enqueue.Request {
	r := enqueue.Request{
		Protocol: activity.ActivityPub, Body: ptr(note), Options: activity.Options{KeyID: keyID},
		Recipients: []enqueue.Recipient{{Inbox: "https://a.example/inbox"}, {Inbox: "https://b.example/inbox"}},
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func ptr[T any](v T) *T { return &v }

func key(k string) func(*enqueue.Request) {
	return func(r *enqueue.Request) { r.DeduplicationKey = &k }
}

func ordered(k string) func(*enqueue.Request) {
	return func(r *enqueue.Request) { r.OrderingKey = k }
}

func delay(d time.Duration) func(*enqueue.Request) {
	return func(r *enqueue.Request) { r.Delay = d }
}

func ttl(d time.Duration) func(*enqueue.Request) {
	return func(r *enqueue.Request) { r.DeduplicationTTL = d }
}

// body sets a request's body, of any actor: most tests do not care about the actor.
func body(s string) func(*enqueue.Request) {
	return func(r *enqueue.Request) { r.Body, r.AllowKeyOfOther = &s, r.Protocol == activity.ActivityPub }
}

func (w *world) enqueue(r enqueue.Request) (enqueue.Result, error) {
	return w.service.Enqueue(w.Context(), r)
}

// must enqueues a request that has to be accepted.
func (w *world) must(r enqueue.Request, want enqueue.Status) activity.ID {
	w.Helper()
	res, err := w.enqueue(r)
	if err != nil {
		w.Fatalf("enqueue: %v", err)
	}
	if res.Status != want {
		w.Fatalf("status %q, want %q", res.Status, want)
	}
	return res.ID
}

// arrival is one activity that arrived on a queue.
type arrival struct {
	Queue   queue.Name
	Message message.Message // with the claim check resolved; never a batch
	Raw     queue.Received
}

// arrived takes all visible messages off the queues, bypassing the plan.
func (w *world) arrived() []arrival {
	w.Helper()
	var all []arrival
	for _, n := range sending {
		for {
			got, err := w.engine.Queue(n).Receive(w.Context(), queue.ReceiveOptions{Max: 10, Visibility: time.Hour})
			if err != nil {
				w.Fatal(err)
			}
			if len(got) == 0 {
				break
			}
			for _, r := range got {
				for _, m := range w.open(r.Body) {
					all = append(all, arrival{n, m, r})
				}
				if err := w.engine.Queue(n).Delete(w.Context(), r.Handle); err != nil {
					w.Fatal(err)
				}
			}
		}
	}
	return all
}

// open returns the activities that a message carries, one each.
func (w *world) open(text string) []message.Message {
	w.Helper()
	m, err := message.Decode(text)
	if err == nil && m.Ref != nil {
		if text, err = claimcheck.Get(w.Context(), w.truth, m.Ref.ID, m.Ref.Parts); err == nil {
			m, err = message.Decode(text)
		}
	}
	if err != nil {
		w.Fatal(err)
	}
	if m.Batch != nil {
		return m.Batch
	}
	return []message.Message{m}
}

// one returns the only arrival.
func (w *world) one() arrival {
	w.Helper()
	all := w.arrived()
	if len(all) != 1 {
		w.Fatalf("%d messages arrived, want 1", len(all))
	}
	return all[0]
}

// ids counts arrivals by activity.
func ids(all []arrival) map[activity.ID]int {
	n := map[activity.ID]int{}
	for _, a := range all {
		n[a.Message.Activity.ID]++
	}
	return n
}

// only returns the one activity that arrived, once or more often.
func (w *world) only() activity.ID {
	w.Helper()
	got := ids(w.arrived())
	if len(got) != 1 {
		w.Fatalf("activities %v arrived, want exactly one", got)
	}
	return slices.Collect(maps.Keys(got))[0]
}

// calls returns the calls since the plan's n-th, as "target.op".
func (w *world) calls(n int) []string {
	var all []string
	for _, c := range w.plan.Calls()[n:] {
		all = append(all, c.Target+"."+c.Op)
	}
	return all
}

// faultsOf returns the faults of a refused request by their pointers.
func faultsOf(t *testing.T, err error) map[string]enqueue.Fault {
	t.Helper()
	var invalid *enqueue.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v, want an *InvalidError", err)
	}
	m := map[string]enqueue.Fault{}
	for _, f := range invalid.Faults {
		m[f.Pointer] = f
	}
	return m
}
