package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/engines/pgtest"
	"fedpost/internal/testkit/long"
)

// work makes each kind of write on an engine, and returns what happened: every one has to succeed,
// and to have happened once.
func work(t *testing.T, e *postgres.Engine) (did []string) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	take := func(q queue.Queue, wait time.Duration) (got []queue.Received) {
		t.Helper()
		// A broken transaction holds its locks until the server has noticed.
		got, err := q.Receive(ctx, queue.ReceiveOptions{Max: 10, Visibility: time.Hour, Wait: wait})
		must(err)
		for _, r := range got {
			did = append(did, fmt.Sprintf("%s:%d", r.Body, r.ReceiveCount))
		}
		return got
	}
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		q := e.Queue(name)
		m := queue.Message{Body: string(name)}
		if name.Ordered() {
			m.OrderingKey, m.DeduplicationKey = "g", "k"
		}
		must(q.Send(ctx, m))
		for _, r := range take(q, queue.MaxWait) {
			must(q.ChangeVisibility(ctx, r.Handle, 0))
		}
		for _, r := range take(q, queue.MaxWait) {
			must(q.Delete(ctx, r.Handle))
		}
		take(q, 0)
	}
	a, b := table.Item{Key: table.Key{PK: "p", SK: "a"}, Fence: "1"}, table.Item{Key: table.Key{PK: "p", SK: "b"}, Fence: "1"}
	tb := e.Table()
	must(tb.Put(ctx, a, table.Cond{Absent: true}))
	a.Fence = "2"
	must(tb.Put(ctx, a, table.Fenced("1")))
	must(tb.Transact(ctx, []table.Op{{Check: &a.Key, Cond: table.Fenced("2")}, {Put: &b, Cond: table.Cond{Absent: true}}}))
	must(tb.Delete(ctx, b.Key, table.Fenced("1")))
	must(tb.PutAll(ctx, []table.Item{b}))
	got, err := tb.Get(ctx, a.Key, b.Key)
	must(err)
	return append(did, got[a.Key].Fence, got[b.Key].Fence)
}

var worked = []string{"normal:1", "normal:2", "ordered:1", "ordered:2", "2", "1"}

// TestWhatBreaksOnTheWireHappensOnce breaks the connection at each request of some work, before
// the server gets the request or before its answer arrives, or holds the answer up. The server
// stays, so the engine can find out what happened.
func TestWhatBreaksOnTheWireHappensOnce(t *testing.T) {
	pgtest.URL(t)
	for name, fault := range map[string]pgtest.Fault{"cut before": pgtest.CutBefore, "cut after": pgtest.CutAfter, "late": pgtest.Late} {
		t.Run(name, func(t *testing.T) {
			for at, last := 1, 1; at <= last && !t.Failed(); at += long.Pick(3, 1) {
				t.Run(fmt.Sprint(at), func(t *testing.T) { last = max(last, broken(t, at, fault)) })
			}
		})
	}
}

// broken does the work on a schema of its own with request at broken, and returns how many
// requests there were.
func broken(t *testing.T, at int, fault pgtest.Fault) int {
	t.Helper()
	var requests atomic.Int64
	var begun atomic.Bool
	p := pgtest.NewProxy(t, func(b []byte) pgtest.Fault {
		// The connection that listens breaks by itself in other tests.
		if begun.Load() && !bytes.Contains(b, []byte("LISTEN")) && requests.Add(1) == int64(at) {
			return fault
		}
		return pgtest.Pass
	})
	e := pgtest.OpenAt(t, p.URL, postgres.Options{Schema: pgtest.Schema(t)})
	begun.Store(true)
	if did := work(t, e); !slices.Equal(did, worked) {
		t.Errorf("it did %q, want %q", did, worked)
	}
	return int(requests.Load())
}

// isCommit reports whether a request is a COMMIT.
func isCommit(b []byte) bool { return bytes.Contains(b, []byte("COMMIT\x00")) }

// TestASendOfWhichNothingIsKnownIsNotCalledUnsent: the answer to COMMIT is lost, and the server
// cannot be asked.
func TestASendOfWhichNothingIsKnownIsNotCalledUnsent(t *testing.T) {
	long.Only(t, "the server is asked for some seconds")
	var p *pgtest.Proxy
	var armed atomic.Bool
	p = pgtest.NewProxy(t, func(b []byte) pgtest.Fault {
		if armed.Load() && isCommit(b) {
			go p.Away(true)
			return pgtest.CutAfter
		}
		return pgtest.Pass
	})
	e := pgtest.OpenAt(t, p.URL, postgres.Options{Schema: pgtest.Schema(t)})
	armed.Store(true)
	err := e.Queue(queue.Normal).Send(t.Context(), queue.Message{Body: "x"})
	if err == nil || queue.NotSent(err) {
		t.Errorf("%v, want an error that leaves open whether the message was sent", err)
	}
	// Now it is certain that nothing is sent.
	if err := e.Queue(queue.Normal).Send(t.Context(), queue.Message{Body: "y"}); !queue.NotSent(err) {
		t.Errorf("while the server is away: %v", err)
	}
	armed.Store(false)
	p.Away(false)
	if err := e.Queue(queue.Normal).Send(t.Context(), queue.Message{Body: "z"}); err != nil {
		t.Errorf("when the server is back: %v", err)
	}
}

// TestAServerThatIsAwayIsWaitedForByReceivers: a receiver that waits goes on by itself, and
// learns of messages that were sent while it could not listen.
func TestAServerThatIsAwayIsWaitedForByReceivers(t *testing.T) {
	p := pgtest.NewProxy(t, func([]byte) pgtest.Fault { return pgtest.Pass })
	schema := pgtest.Schema(t)
	e := pgtest.OpenAt(t, p.URL, postgres.Options{Schema: schema})
	beside := pgtest.Open(t, postgres.Options{Schema: schema})
	p.Away(true)
	if _, err := e.Queue(queue.Normal).Receive(t.Context(), queue.ReceiveOptions{Max: 1}); err == nil || errors.Is(err, t.Context().Err()) {
		t.Errorf("received from a server that is away: %v", err)
	}
	if err := beside.Queue(queue.Normal).Send(t.Context(), queue.Message{Body: "x"}); err != nil {
		t.Fatal(err)
	}
	p.Away(false)
	got, err := e.Queue(queue.Normal).Receive(t.Context(), queue.ReceiveOptions{Max: 1, Wait: 20 * time.Second})
	if err != nil || len(got) != 1 {
		t.Errorf("%d messages, error %v", len(got), err)
	}
}

// TestAMessageForAGroupThatEndsIsReceived: one process is about to commit a message of a group
// while another one deletes the last message before it, and with it the group.
func TestAMessageForAGroupThatEndsIsReceived(t *testing.T) {
	ctx, schema := t.Context(), pgtest.Schema(t)
	var armed atomic.Bool
	committing, release := make(chan struct{}), make(chan struct{})
	p := pgtest.NewProxy(t, func(b []byte) pgtest.Fault {
		if isCommit(b) && armed.CompareAndSwap(true, false) {
			close(committing)
			<-release
		}
		return pgtest.Pass
	})
	one := pgtest.OpenAt(t, p.URL, postgres.Options{Schema: schema}).Queue(queue.Ordered)
	other := pgtest.Open(t, postgres.Options{Schema: schema}).Queue(queue.Ordered)
	send := func(body string) error {
		return one.Send(ctx, queue.Message{Body: body, OrderingKey: "g", DeduplicationKey: body})
	}
	if err := send("first"); err != nil {
		t.Fatal(err)
	}
	first, err := other.Receive(ctx, queue.ReceiveOptions{Max: 1})
	if err != nil || len(first) != 1 {
		t.Fatalf("received %v, error %v, want the first message", first, err)
	}
	armed.Store(true)
	sent, deleted := make(chan error, 1), make(chan error, 1)
	go func() { sent <- send("second") }()
	<-committing
	go func() { deleted <- other.Delete(ctx, first[0].Handle) }()
	for waits := 0; waits == 0 && len(deleted) == 0; {
		waits = pgtest.Count(t, "pg_locks WHERE NOT granted")
	}
	close(release)
	for _, err := range []error{<-sent, <-deleted} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := other.Receive(ctx, queue.ReceiveOptions{Max: 1})
	if err != nil || len(got) != 1 || got[0].Body != "second" {
		t.Errorf("received %v, error %v, want the second message", got, err)
	}
}

// TestAReceiveWhoseAnswerIsLostReturnsItsMessages: the answer to COMMIT is lost, and the server
// is away for longer than a write waits for it. The messages are hidden, so nobody else gets
// them.
func TestAReceiveWhoseAnswerIsLostReturnsItsMessages(t *testing.T) {
	long.Only(t, "the server is away for longer than writes wait for it")
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			var p *pgtest.Proxy
			var armed atomic.Bool
			p = pgtest.NewProxy(t, func(b []byte) pgtest.Fault {
				if isCommit(b) && armed.CompareAndSwap(true, false) {
					go func() {
						p.Away(true)
						time.Sleep(12 * time.Second)
						p.Away(false)
					}()
					return pgtest.CutAfter
				}
				return pgtest.Pass
			})
			e := pgtest.OpenAt(t, p.URL, postgres.Options{Schema: pgtest.Schema(t)})
			m := queue.Message{Body: "x"}
			if name.Ordered() {
				m.OrderingKey, m.DeduplicationKey = "g", "k"
			}
			if err := e.Queue(name).Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			armed.Store(true)
			got, err := e.Queue(name).Receive(t.Context(), queue.ReceiveOptions{Max: 1, Visibility: 10 * time.Minute})
			if err != nil || len(got) != 1 || armed.Load() {
				t.Errorf("received %d messages, error %v; want the message whose receive was committed", len(got), err)
			}
		})
	}
}
