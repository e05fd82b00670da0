package postgres_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/engines/pgtest"
)

// TestASendThatACrashUndidIsNotCalledSent: the server crashes while a COMMIT is on its way. What
// it had not written yet is undone, and it gives the transaction's number to another one.
func TestASendThatACrashUndidIsNotCalledSent(t *testing.T) {
	for name, c := range map[string]struct {
		commit pgtest.Fault
		until  string // the request during which the server crashes
		others int    // transactions after the crash
	}{
		"undone":                      {pgtest.CutBefore, "COMMIT", 0},
		"undone, number in use again": {pgtest.CutBefore, "COMMIT", 20},
		"committed":                   {pgtest.CutAfter, "pg_xact_status", 20},
	} {
		t.Run(name, func(t *testing.T) {
			server := pgtest.NewServer(t)
			var armed atomic.Bool
			crashing, crashed := make(chan struct{}), make(chan struct{})
			p := server.Proxy(func(b []byte) (f pgtest.Fault) {
				if armed.Load() && isCommit(b) {
					f = c.commit
				}
				if armed.Load() && bytes.Contains(b, []byte(c.until)) {
					armed.Store(false)
					close(crashing)
					<-crashed
					return pgtest.CutBefore
				}
				return f
			})
			e := pgtest.OpenAt(t, p.URL, postgres.Options{})
			armed.Store(true)
			sent := make(chan error, 1)
			go func() { sent <- e.Queue(queue.Normal).Send(context.Background(), queue.Message{Body: "x"}) }()
			<-crashing
			server.Stop("immediate")
			server.Start()
			conn, err := pgx.Connect(t.Context(), server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.Background()) }()
			for range c.others {
				if _, err := conn.Exec(t.Context(), `SELECT pg_current_xact_id()`); err != nil {
					t.Fatal(err)
				}
			}
			close(crashed)
			err = <-sent
			var n int
			if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM fedpost.message`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			if n > 1 || err == nil && n == 0 || queue.NotSent(err) && n == 1 {
				t.Errorf("%d messages are there after a send with error %v", n, err)
			}
		})
	}
}
