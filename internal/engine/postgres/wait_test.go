package postgres_test

import (
	"context"
	"testing"
	"time"

	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/engines/pgtest"
)

// TestReceiversDoNotWaitForEachOther: another one is about to take the first message.
func TestReceiversDoNotWaitForEachOther(t *testing.T) {
	schema := pgtest.Schema(t)
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		q := pgtest.Open(t, postgres.Options{Schema: schema}).Queue(name)
		for _, body := range []string{"first", "second"} {
			m := queue.Message{Body: body}
			if name.Ordered() {
				m.OrderingKey, m.DeduplicationKey = body, body
			}
			if err := q.Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		other := session(t, "another receiver")
		do(t, other, `BEGIN`)
		lock := `SELECT FROM ` + schema + `.lease WHERE queue = $1 ORDER BY seq LIMIT 1 FOR UPDATE`
		if name.Ordered() {
			lock = `SELECT FROM ` + schema + `.fifo_group WHERE queue = $1 ORDER BY free LIMIT 1 FOR UPDATE`
		}
		do(t, other, lock, string(name))
		got := make(chan []queue.Received, 1)
		go func() {
			ms, err := q.Receive(context.Background(), queue.ReceiveOptions{Max: 10})
			if err != nil {
				t.Error(err)
			}
			got <- ms
		}()
		select {
		case ms := <-got:
			if len(ms) != 1 || ms[0].Body != "second" {
				t.Errorf("%s: received %d messages, want the one that nobody else takes", name, len(ms))
			}
			do(t, other, `ROLLBACK`)
		case <-time.After(5 * time.Second):
			t.Errorf("%s: the receiver waits for the other one", name)
			do(t, other, `ROLLBACK`)
			<-got
		}
	}
}
