package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/engines/pgtest"
	"fedpost/internal/testkit/long"
)

// TestTheServersClockDecides runs the contract by the server's clock, in real time, through the
// protocol that PgBouncer before 1.21 needs.
func TestTheServersClockDecides(t *testing.T) {
	long.Only(t, "it waits in real time")
	url := pgtest.URL(t) + "?default_query_exec_mode=exec"
	queuetest.Run(t, func(t *testing.T) queuetest.Harness {
		schema := pgtest.Schema(t)
		h := queuetest.Kept(func(_ func() time.Time, configs map[queue.Name]queue.Config) queuetest.Keeper {
			return pgtest.OpenAt(t, url, postgres.Options{Schema: schema, Queues: configs})
		}, true)
		h.Now, h.Advance, h.Patient = nil, time.Sleep, 10*time.Second
		return h
	})
}

func TestAMessageThatBecomesVisibleBetweenTwoLooksIsNotSleptThrough(t *testing.T) {
	queuetest.SleepThroughNothing(t, func(now func() time.Time, configs map[queue.Name]queue.Config) queuetest.Keeper {
		return pgtest.Open(t, postgres.Options{Now: now, Queues: configs})
	})
}

// TestOtherProcessesAreNotifiedOfMessagesThatNobodyHereWaitsFor listens as another process does.
func TestOtherProcessesAreNotifiedOfMessagesThatNobodyHereWaitsFor(t *testing.T) {
	schema := pgtest.Schema(t)
	e := pgtest.Open(t, postgres.Options{Schema: schema})
	c, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	if _, err := c.Exec(t.Context(), "LISTEN "+schema+"_queues"); err != nil {
		t.Fatal(err)
	}
	send := func(n queue.Name) {
		t.Helper()
		if err := e.Queue(n).Send(t.Context(), queue.Message{Body: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	// A receiver of this process takes what comes on high; nobody does on low.
	got := make(chan error)
	go func() {
		ms, err := e.Queue(queue.High).Receive(t.Context(), queue.ReceiveOptions{Max: 1, Wait: queue.MaxWait})
		if err == nil && len(ms) != 1 {
			t.Errorf("received %d messages, want one", len(ms))
		}
		got <- err
	}()
	send(queue.High)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	send(queue.Low)
	for {
		heard, err := c.WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(heard.Payload, "low ") {
			return
		}
	}
}

// TestAReceiverThatWaitsHasAMessageInTheTransactionOfItsSend: the transaction that made the row of
// the message's lease has made that of its body, too.
func TestAReceiverThatWaitsHasAMessageInTheTransactionOfItsSend(t *testing.T) {
	schema := pgtest.Schema(t)
	e := pgtest.Open(t, postgres.Options{Schema: schema})
	c, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	q := e.Queue(queue.Normal)
	// The receiver may not have begun to wait at the first message.
	for try := range 20 {
		got := make(chan []queue.Received)
		go func() {
			ms, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 10, Wait: queue.MaxWait})
			if err != nil {
				t.Error(err)
			}
			got <- ms
		}()
		time.Sleep(time.Duration(try) * 10 * time.Millisecond)
		if err := q.Send(t.Context(), queue.Message{Body: "x"}); err != nil {
			t.Fatal(err)
		}
		if ms := <-got; len(ms) != 1 || ms[0].ReceiveCount != 1 {
			t.Fatalf("received %v", ms)
		}
		s := pgx.Identifier{schema}.Sanitize()
		var same bool
		if err := c.QueryRow(t.Context(), `SELECT l.xmin = m.xmin FROM `+s+`.lease l JOIN `+s+`.message m USING (seq) ORDER BY seq DESC LIMIT 1`).Scan(&same); err != nil {
			t.Fatal(err)
		}
		if same {
			return
		}
	}
	t.Error("each message took two transactions")
}

// TestReceiversWaitForWhatOtherProcessesSend: each of two processes sends what the other one
// receives.
func TestReceiversWaitForWhatOtherProcessesSend(t *testing.T) {
	schema := pgtest.Schema(t)
	a, b := pgtest.Open(t, postgres.Options{Schema: schema}), pgtest.Open(t, postgres.Options{Schema: schema})
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		got := make(chan int)
		go func() {
			ms, err := b.Queue(name).Receive(t.Context(), queue.ReceiveOptions{Max: 1, Wait: queue.MaxWait})
			if err != nil {
				t.Error(err)
			}
			got <- len(ms)
		}()
		m := queue.Message{Body: "x"}
		if name.Ordered() {
			m.OrderingKey, m.DeduplicationKey = "g", "k"
		}
		if err := a.Queue(name).Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if n := <-got; n != 1 {
			t.Errorf("%s: received %d messages, want 1", name, n)
		}
	}
}

func TestMessagesStayWhenTheTypeOfQueuesChanges(t *testing.T) {
	schema, c := pgtest.Schema(t), queuetest.NewClock()
	open := func(typ queue.Type) *postgres.Engine {
		return pgtest.Open(t, postgres.Options{Schema: schema, Type: typ, Now: c.Now})
	}
	receive := func(e *postgres.Engine, want ...string) {
		t.Helper()
		ms, err := e.Queue(queue.Normal).Receive(t.Context(), queue.ReceiveOptions{Max: 10, Visibility: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range ms {
			got = append(got, m.Body)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("received %q, want %q", got, want)
		}
	}
	standard := open(queue.Standard)
	for _, m := range []queue.Message{{Body: "a"}, {Body: "b"}, {Body: "later", Delay: 10 * time.Minute}} {
		if err := standard.Queue(queue.Normal).Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	fifo := open(queue.FIFO)
	receive(fifo, "a", "b")
	// A process that was not restarted goes on with the old type; the next sweep takes over.
	if err := standard.Queue(queue.Normal).Send(t.Context(), queue.Message{Body: "c"}); err != nil {
		t.Fatal(err)
	}
	if err := fifo.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	receive(fifo, "c")
	c.Advance(2 * time.Minute)
	receive(open(queue.Standard), "a", "b", "c")
	c.Advance(10 * time.Minute)
	receive(standard, "a", "b", "later", "c")
}

func TestSweepDropsWhatHasHadItsTime(t *testing.T) {
	schema, c := pgtest.Schema(t), queuetest.NewClock()
	keep := queue.Config{Retention: 2 * time.Hour}
	e := pgtest.Open(t, postgres.Options{Schema: schema, Now: c.Now, Queues: map[queue.Name]queue.Config{queue.Normal: keep, queue.Ordered: keep}})
	var items []table.Item
	for _, sk := range []string{"a", "b"} {
		items = append(items, table.Item{Key: table.Key{PK: "p", SK: sk}, Expires: c.Now()})
	}
	items = append(items, table.Item{Key: table.Key{PK: "p", SK: "eternal"}})
	if err := e.Table().PutAll(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	for _, n := range []queue.Name{queue.Normal, queue.Ordered, queue.Low} {
		m := queue.Message{Body: "x"}
		if n.Ordered() {
			m.OrderingKey, m.DeduplicationKey = "g", "k"
		}
		if err := e.Queue(n).Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, want map[string]int) {
		t.Helper()
		if err := e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, n := range want {
			if got := pgtest.Count(t, schema+"."+name); got != n {
				t.Errorf("%s: %s has %d rows, want %d", when, name, got, n)
			}
		}
	}
	c.Advance(postgres.Grace - time.Second)
	check("before the grace ends", map[string]int{"item": 3, "dedup": 0, "lease": 2, "fifo_lease": 1, "fifo_group": 1, "message": 3})
	c.Advance(time.Second)
	check("when it has ended", map[string]int{"item": 1, "lease": 2, "fifo_lease": 1})
	c.Advance(time.Hour)
	check("when messages are old", map[string]int{"item": 1, "lease": 1, "fifo_lease": 0, "fifo_group": 0, "message": 1})
}
