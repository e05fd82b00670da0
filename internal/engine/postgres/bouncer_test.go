package postgres_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/internal/engine/outbox"
	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/engine/table/tabletest"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/engines/pgtest"
)

// TestTheContractsHoldThroughPgBouncer in transaction mode: there are no prepared statements,
// no locks and no settings of a session.
func TestTheContractsHoldThroughPgBouncer(t *testing.T) {
	url := pgtest.Bouncer(t)
	t.Run("table", func(t *testing.T) {
		tabletest.Run(t, func(t *testing.T) tabletest.Harness {
			return tabletest.Harness{Table: pgtest.OpenAt(t, url, postgres.Options{Schema: pgtest.Schema(t)}).Table()}
		})
	})
	t.Run("queue", func(t *testing.T) {
		queuetest.Run(t, func(t *testing.T) queuetest.Harness { return harness(t, url) })
	})
}

// said collects log lines.
type said struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(b)
}

func (s *said) has(text string) bool { return s.count(text) > 0 }

func (s *said) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.all.String(), text)
}

// TestWhereNobodyCanNotifyQueuesAreRead behind PgBouncer in transaction mode, which has no
// LISTEN: messages of other processes are found, rows of the outbox too, and the log says so.
func TestWhereNobodyCanNotifyQueuesAreRead(t *testing.T) {
	url, schema, log := pgtest.Bouncer(t), pgtest.Schema(t), new(said)
	open := func() *postgres.Engine {
		return pgtest.OpenAt(t, url, postgres.Options{Schema: schema, Log: slog.New(slog.NewTextHandler(log, nil))})
	}
	one, other := open(), open()
	e2e.Await(t, 30*time.Second, "the log to say that queues are read", func() (bool, string) {
		return log.has("found within 1s meanwhile"), ""
	})
	for range 2 {
		got := make(chan int)
		go func() {
			ms, err := other.Queue(queue.Normal).Receive(t.Context(), queue.ReceiveOptions{Max: 1, Wait: queue.MaxWait})
			if err != nil {
				t.Error(err)
			}
			got <- len(ms)
		}()
		if err := one.Queue(queue.Normal).Send(t.Context(), queue.Message{Body: "x"}); err != nil {
			t.Fatal(err)
		}
		if n := <-got; n != 1 {
			t.Errorf("received %d messages, want the one of the other process", n)
		}
	}
	insert(t, schema, "a", "b")
	running(t, one.Outbox(), each(accepted))
	running(t, other.Outbox(), each(accepted))
	ended(t, schema)
	if rows := rowsOf(t, one.Outbox(), outbox.Accepted); len(rows) != 2 {
		t.Errorf("rows %+v, want both accepted", rows)
	}
}
