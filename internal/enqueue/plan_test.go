package enqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/protocol"
	"fedpost/internal/testkit/faults"
)

// bodies holds JSON that a careless encoder would change.
var bodies = map[string]string{
	"html":             `{"actor":"a","content":"<p>a & b > c</p>"}`,
	"line separators":  "{\"actor\":\"a\",\"content\":\"\u2028\u2029\"}",
	"emoji":            `{"actor":"a","content":"🐘👩‍👩‍👧‍👦"}`,
	"escapes":          `{"actor":"a","content":"\u003cb\u003e \u0026 \/ \ud83d\udc18 \u2028 \u0000"}`,
	"whitespace":       "{\r\n\t\"actor\" : \"a\" ,\n  \"x\":[ 1 , 2 ]\n}",
	"keys alike":       `{"actor":"a","x":1,"X":2}`,
	"numbers":          `{"actor":"a","x":[1.0,1e2,-0,12345678901234567890,0.1e-7]}`,
	"order of keys":    `{"z":1,"a":2,"actor":"a","@context":[]}`,
	"deep":             `{"actor":"a","x":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`,
	"200 KB":           `{"actor":"a","content":"` + strings.Repeat("<p>Größe & \\u003c 🐘</p>", 8000)[:200_000] + `"}`,
	"replacement char": `{"actor":"a","content":"` + "\ufffd" + `"}`,
}

func TestTheBodyArrivesByteForByte(t *testing.T) {
	for name, text := range bodies {
		for _, way := range []func(*enqueue.Request){
			func(*enqueue.Request) {},
			ordered("o"),
			delay(time.Hour),
			func(r *enqueue.Request) { r.Recipients = inboxes(ledger.ChunkSize+1, 0) },
		} {
			w := newWorld(t, faults.NewPlan(), func(s *settings) { s.maxMessage = 4 << 10 })
			r := request(body(text), way)
			w.must(r, enqueue.Queued)
			w.comeToRest(r.Delay)
			if got := w.one().Message.Activity.Body; got != text {
				t.Errorf("%s: %q became %q", name, text[:min(len(text), 100)], got[:min(len(got), 100)])
			}
		}
	}
}

func TestASipherPayloadIsAnyString(t *testing.T) {
	for _, text := range []string{"", "not JSON", `{"a": 1 }`, "\x00\x01\u2028\"\\", "🐘"} {
		w := newWorld(t, faults.NewPlan())
		w.must(sipher(body(text)), enqueue.Queued)
		a := w.one().Message.Activity
		if a.Body != text || a.Job != "deliver-post" || a.ServerURL != "https://b.example" || a.Protocol != activity.Sipher {
			t.Errorf("%q became %+v", text, a)
		}
	}
}

func TestTheMessageAndTheRecordSayTheSame(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	id := w.must(request(key("k"), delay(10*time.Minute), func(r *enqueue.Request) {
		r.ExpiresIn, r.Coalesce, r.CoalesceCreate = time.Hour, activity.CoalesceLatest, true
	}), enqueue.Queued)
	accepted := w.clock
	w.wait(10 * time.Minute)
	a := w.one().Message.Activity
	r, err := w.truth.Activity(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	due := accepted.Add(10 * time.Minute)
	if !a.CreatedAt.Equal(accepted) || !r.CreatedAt.Equal(accepted) || !r.DueAt.Equal(due) {
		t.Errorf("created %s and %s, due %s", a.CreatedAt, r.CreatedAt, r.DueAt)
	}
	// An activity expires ExpiresIn after its due time.
	if want := due.Add(time.Hour); !a.ExpiresAt.Equal(want) || !r.ExpiresAt.Equal(want) {
		t.Errorf("expires %s and %s, want %s", a.ExpiresAt, r.ExpiresAt, want)
	}
	if want := due.Add(enqueue.DefaultRetention); !r.Forget.Equal(want) {
		t.Errorf("forgotten %s, want %s", r.Forget, want)
	}
	if a.Type != "Create" || r.Type != "Create" || a.KeyID != keyID || a.Coalesce != activity.CoalesceLatest || !a.CoalesceCreate {
		t.Errorf("activity %+v, record %+v", a, r)
	}
	if r.Recipients != 2 || r.Targets != 2 || r.Chunk != ledger.ChunkSize || len(r.Inline) != 2 || r.Fingerprint == "" {
		t.Errorf("record %+v", r)
	}
}

func TestWhatIsSmallIsDeliveredAndWhatIsLargeFannedOut(t *testing.T) {
	for name, c := range map[string]struct {
		change []func(*enqueue.Request)
		n      int
		fanout bool
		chunk  int
		inline bool
	}{
		"one":              {nil, 1, false, ledger.ChunkSize, true},
		"a chunk":          {nil, ledger.ChunkSize, false, ledger.ChunkSize, true},
		"more":             {nil, ledger.ChunkSize + 1, true, ledger.ChunkSize, false},
		"one, ordered":     {[]func(*enqueue.Request){ordered("o")}, 1, true, 1, true},
		"several, ordered": {[]func(*enqueue.Request){ordered("o")}, 2, true, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, faults.NewPlan())
			id := w.must(request(append(c.change, func(r *enqueue.Request) { r.Recipients = inboxes(c.n, 0) })...), enqueue.Queued)
			m := w.one().Message
			if (m.FanOut != nil) != c.fanout || (m.Deliver != nil) == c.fanout {
				t.Errorf("message %+v", m)
			}
			if m.Deliver != nil && (m.Deliver.Chunk != 0 || m.Deliver.Position != message.Whole || len(m.Deliver.Targets) != c.n) {
				t.Errorf("delivery %+v", m.Deliver)
			}
			r, err := w.truth.Activity(t.Context(), id)
			if err != nil || r.Chunk != c.chunk || (len(r.Inline) == c.n) != c.inline {
				t.Errorf("record %+v, %v", r, err)
			}
		})
	}
}

func TestPrioritiesByTypeAndByRequest(t *testing.T) {
	w := newWorld(t, faults.NewPlan(), func(s *settings) {
		s.enqueue.Priorities = map[string]activity.Priority{"Follow": activity.High, "Delete": activity.High, "Like": activity.Low, "deliver-post": activity.Low}
	})
	of := func(kind string) func(*enqueue.Request) { return body(`{"actor":"a","type":` + kind + `}`) }
	asked := func(p activity.Priority) func(*enqueue.Request) {
		return func(r *enqueue.Request) { r.Priority = p }
	}
	for name, c := range map[string]struct {
		r    enqueue.Request
		want queue.Name
	}{
		"by type":        {request(of(`"Follow"`)), queue.High},
		"by first type":  {request(of(`["Like","Follow"]`)), queue.Low},
		"other type":     {request(of(`"Create"`)), queue.Normal},
		"odd type":       {request(of(`7`)), queue.Normal},
		"by request":     {request(of(`"Follow"`), asked(activity.Low)), queue.Low},
		"ordered":        {request(of(`"Follow"`), ordered("o")), queue.Ordered},
		"by job":         {sipher(), queue.Low},
		"of an account":  {request(body(`{"actor":"a","type":"Delete","object":"a"}`)), queue.Low},
		"an account too": {request(body(`{"actor":{"id":"a"},"type":"Delete","object":{"id":"a"}}`)), queue.Low},
		"of a post":      {request(body(`{"actor":"a","type":"Delete","object":"a/1"}`)), queue.High},
		"account, asked": {request(body(`{"actor":"a","type":"Delete","object":"a"}`), asked(activity.High)), queue.High},
		"job by request": {sipher(asked(activity.High)), queue.High},
	} {
		w.must(c.r, enqueue.Queued)
		if got := w.one(); got.Queue != c.want {
			t.Errorf("%s: on queue %s, want %s", name, got.Queue, c.want)
		}
	}
	// A batch goes to the queue of its most urgent part; each part keeps its own
	// priority.
	if _, err := w.service.EnqueueBatch(t.Context(), enqueue.BatchRequest{Requests: []enqueue.Request{
		request(of(`"Like"`)), request(of(`"Follow"`)), request(of(`"Create"`)),
	}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range w.arrived() {
		got = append(got, string(a.Queue)+" "+string(a.Message.Activity.Priority))
	}
	if want := []string{"high low", "high high", "high normal"}; !slices.Equal(got, want) {
		t.Errorf("batch: %v, want %v", got, want)
	}
}

func TestTheDefaultPriorityIsConfigurable(t *testing.T) {
	w := newWorld(t, faults.NewPlan(), func(s *settings) { s.enqueue.Priority = activity.Low })
	w.must(request(), enqueue.Queued)
	if got := w.one().Queue; got != queue.Low {
		t.Errorf("on queue %s", got)
	}
}

func TestDelaysOfAnyLengthAreHeldAndReleasedOnce(t *testing.T) {
	for _, order := range []string{"", "o"} {
		for _, d := range []time.Duration{0, time.Second, 15 * time.Minute, 15*time.Minute + time.Second, 30 * 24 * time.Hour} {
			t.Run(fmt.Sprint(order, d), func(t *testing.T) {
				w := newWorld(t, faults.NewPlan())
				id := w.must(request(delay(d), ordered(order)), enqueue.Queued)
				release := func() {
					t.Helper()
					if _, err := w.release.Release(t.Context(), w.now()); err != nil {
						t.Fatal(err)
					}
				}
				if d > 0 {
					w.wait(d - time.Millisecond)
					release()
					if n := len(w.arrived()); n > 0 {
						t.Fatal("it came too early")
					}
					w.wait(time.Millisecond)
				}
				release()
				release()
				a := w.one().Message.Activity
				if a.ID != id {
					t.Errorf("another activity arrived: %s", a.ID)
				}
				if d > 0 && !a.DueAt.Equal(w.now()) || d == 0 && !a.DueAt.IsZero() {
					t.Errorf("due at %s, and released at %s", a.DueAt, w.now())
				}
				w.wait(time.Hour)
				release()
				if n := len(w.arrived()); n > 0 {
					t.Errorf("%d more arrived", n)
				}
			})
		}
	}
}

func TestDelayedWorkOfOneOrderingKeyIsReleasedInOrder(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	var want []activity.ID
	for range 120 { // more than a page
		want = append(want, w.must(request(ordered("o"), delay(time.Minute)), enqueue.Queued))
	}
	w.comeToRest(time.Minute)
	var got []activity.ID
	for _, a := range w.arrived() {
		got = append(got, a.Message.Activity.ID)
	}
	if !slices.Equal(got, want) {
		t.Error("they came in another order")
	}
}

func TestOverlappingReleasesCarryTheSameIDs(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	want := map[activity.ID]bool{}
	for range 20 {
		want[w.must(request(delay(time.Hour)), enqueue.Queued)] = true
	}
	w.wait(time.Hour)
	done := make(chan error)
	for range 4 {
		go func() {
			_, err := w.release.Release(t.Context(), w.now())
			done <- err
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	got := ids(w.arrived())
	for id := range got {
		if !want[id] {
			t.Errorf("%s was never accepted", id)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d of %d arrived", len(got), len(want))
	}
}

func TestReleaseStopsWhenItsTimeIsUp(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	w.must(request(delay(time.Hour)), enqueue.Queued)
	w.wait(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := w.release.Release(ctx, w.now()); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("released %d, %v", n, err)
	}
	w.comeToRest(0)
	w.one()
}

// witness is a Coalescer and a protocol.Recorder.
type witness struct {
	w     *world
	noted []string
	err   error
}

func (n *witness) Accepted(_ context.Context, a activity.Activity, targets []activity.Target) error {
	n.noted = append(n.noted, fmt.Sprintf("noted %s for %d after %s", a.Type, len(targets), n.last()))
	return n.err
}

func (n *witness) Record(_ context.Context, a activity.Activity, t activity.Target) error {
	n.noted = append(n.noted, fmt.Sprintf("recorded %s to %s after %s", a.Job, t.Inbox, n.last()))
	return n.err
}

func (n *witness) last() string {
	calls := n.w.calls(0)
	return calls[len(calls)-1]
}

func newWitness(t *testing.T, p *faults.Plan) *witness {
	n := &witness{}
	n.w = newWorld(t, p, func(s *settings) {
		s.enqueue.Coalescer, s.enqueue.Protocols = n, protocol.Set{protocols[0], withRecorder(protocols[1], n)}
	})
	return n
}

func TestTheCoalescerRecordsWhatIsOnAQueueAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		r    enqueue.Request
		want []string
	}{
		"at once":       {request(), []string{"noted Create for 2 after normal.Send"}},
		"with a key":    {request(key("k")), []string{"noted Create for 2 after normal.Send"}},
		"delayed":       {request(delay(time.Hour)), []string{"noted Create for 2 after normal.SendBatch"}},
		"by reference":  {request(delay(time.Hour), func(r *enqueue.Request) { r.Recipients = inboxes(600, 2000) }), []string{"noted Create for 600 after table.Get"}},
		"sipher is not": {sipher(), []string{"recorded deliver-post to https://b.example/api/auth/social/posts after table.Put"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newWitness(t, faults.NewPlan())
			n.w.must(c.r, enqueue.Queued)
			n.w.comeToRest(c.r.Delay)
			if !slices.Equal(n.noted, c.want) {
				t.Errorf("%v, want %v", n.noted, c.want)
			}
		})
	}
	n := newWitness(t, faults.NewPlan(faults.Fault{Call: 3, Kind: faults.Refuse}))
	if _, err := n.w.enqueue(request()); err == nil || len(n.noted) > 0 {
		t.Errorf("what was not sent: %v, %v", n.noted, err)
	}
}

func TestAFailedNoteIsNoFailure(t *testing.T) {
	n := newWitness(t, faults.NewPlan())
	n.err = errors.New("outage")
	n.w.must(request(), enqueue.Queued)
	n.w.must(request(delay(time.Hour)), enqueue.Queued)
	n.w.comeToRest(time.Hour)
	if got := len(n.w.arrived()); got != 2 {
		t.Errorf("%d arrived", got)
	}
}

func TestAJobThatCannotBeRecordedIsNotSent(t *testing.T) {
	n := newWitness(t, faults.NewPlan())
	n.w.change = append(n.w.change, func(s *settings) { s.dedup.Fallback = dedup.Closed })
	n.w.restart(n.w.plan)
	n.err = errors.New("outage")
	_, err := n.w.enqueue(sipher(key("k")))
	var send *enqueue.SendError
	if !errors.As(err, &send) || send.MaybeSent || !errors.Is(err, n.err) {
		t.Fatalf("got %v", err)
	}
	if got := len(n.w.arrived()); got > 0 {
		t.Errorf("%d arrived", got)
	}
	n.err = nil
	n.w.must(sipher(key("k")), enqueue.Queued) // at once
}

func TestAHangUpInTheMiddleDoesNotStopWhatHasBegun(t *testing.T) {
	for name, answer := range map[string]error{"sent": nil, "not sent": queue.ErrNotSent} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, faults.NewPlan())
			ctx, cancel := context.WithCancel(t.Context())
			w.intercept(func() error {
				cancel()
				return answer
			})
			if _, err := w.service.Enqueue(ctx, request(key("k"))); !errors.Is(err, answer) {
				t.Fatalf("got %v", err)
			}
			// The key is confirmed or free: a second call need not wait for a
			// lease.
			w.must(request(key("k")), map[bool]enqueue.Status{true: enqueue.Duplicate, false: enqueue.Queued}[answer == nil])
		})
	}
}

func TestALimitOfTheBodyIsMarkedAsSuch(t *testing.T) {
	w := newWorld(t, faults.NewPlan(), func(s *settings) { s.enqueue.Limits.Body = 100 })
	got := faultsOf(t, second(w.enqueue(request())))
	if !got["/activity"].TooLarge {
		t.Errorf("faults %v", got)
	}
}

// sideBySide sorts writes to the table that follow each other: those of the lists and of the
// record are made at once, in any order.
func sideBySide(calls []string) []string {
	calls = slices.Clone(calls)
	for begin := 0; begin < len(calls); {
		end := begin
		for end < len(calls) && strings.HasPrefix(calls[end], "table.Put") {
			end++
		}
		slices.Sort(calls[begin:end])
		begin = end + 1
	}
	return calls
}

func TestWhatAcceptingCosts(t *testing.T) {
	// An activity with an id of its own is on the list of that id, too.
	named := body(`{"id":"https://social.example/notes/1","type":"Create","actor":"https://social.example/users/frida"}`)
	for name, c := range map[string]struct {
		r     enqueue.Request
		calls []string
		units int // of writes
	}{
		"without a key":          {request(), []string{"table.PutAll", "table.Put", "normal.Send"}, 2},
		"with an id":             {request(named), []string{"table.PutAll", "table.Put", "normal.Send"}, 3},
		"forwarded":              {request(named, func(r *enqueue.Request) { r.Body = ptr(strings.ReplaceAll(*r.Body, "frida", "gus")) }), []string{"table.PutAll", "table.Put", "normal.Send"}, 4},
		"with a key":             {request(key("k")), []string{"table.Put", "table.PutAll", "table.Put", "normal.Send", "table.Put"}, 4},
		"a chunk of recipients":  {request(key("k"), func(r *enqueue.Request) { r.Recipients = inboxes(50, 60) }), []string{"table.Put", "table.PutAll", "table.Put", "normal.Send", "table.Put"}, 4},
		"ordered":                {request(ordered("o")), []string{"table.PutAll", "table.Put", "ordered.Send"}, 2},
		"ordered, with a key":    {request(ordered("o"), key("k")), []string{"table.Get", "table.Get", "table.Put", "table.PutAll", "ordered.Send"}, 2},
		"many recipients":        {request(func(r *enqueue.Request) { r.Recipients = inboxes(5000, 0) }), []string{"table.PutAll", "table.Put", "normal.Send"}, 2},
		"delayed by the queue":   {request(delay(time.Minute)), []string{"table.PutAll", "table.Put", "normal.Send"}, 2},
		"more than a message is": {request(func(r *enqueue.Request) { r.Recipients = inboxes(600, 2000) }), []string{"table.PutAll", "table.Put", "table.PutAll", "normal.Send"}, 0},
		"delayed by the agenda":  {request(delay(time.Hour)), []string{"table.PutAll", "table.Put", "table.Put"}, 0},
		"a job of sipher":        {sipher(), []string{"table.Put", "normal.Send"}, 1},
	} {
		w := newWorld(t, faults.NewPlan())
		w.must(c.r, enqueue.Queued)
		if got, want := sideBySide(w.calls(0)), sideBySide(c.calls); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		requests, units := 0, 0.0
		for op, u := range w.cost.Snapshot() {
			if op.Service == "SQS" {
				requests += u.Requests
			}
			units += u.WriteUnits
		}
		if c.units > 0 && (requests != 1 || units != float64(c.units)) {
			t.Errorf("%s: %d requests to SQS and %v write units, want 1 and %d", name, requests, units, c.units)
		}
		t.Logf("%s: %d requests to SQS, %v write units", name, requests, units)
	}
}
