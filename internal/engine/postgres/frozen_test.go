package postgres_test

import (
	"context"
	"testing"
	"time"

	"fedpost/internal/engine/outbox"
	"fedpost/internal/engine/postgres"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/engines/pgtest"
	"fedpost/internal/testkit/long"
)

// TestAProcessThatIsFrozenWhileItListensIsDisconnected: its connection waits to deliver
// notifications, and would keep VACUUM from all dead rows.
func TestAProcessThatIsFrozenWhileItListensIsDisconnected(t *testing.T) {
	long.Only(t, "the server waits for 30 seconds")
	schema := pgtest.Schema(t)
	p := pgtest.NewProxy(t, func([]byte) pgtest.Fault { return pgtest.Pass })
	pgtest.OpenAt(t, p.URL+"&application_name="+schema, postgres.Options{Schema: schema})
	sessions := func(what string) int {
		return pgtest.Count(t, `pg_stat_activity WHERE application_name = '`+schema+`' AND `+what)
	}
	e2e.Await(t, 10*time.Second, "the process to listen", func() (bool, string) { return sessions(`query LIKE 'LISTEN%' OR query LIKE '%pg_notify%'`) > 1, "" })
	thaw := p.Freeze()
	defer thaw()
	// More than the buffers of the connection hold.
	pgtest.Exec(t, `SELECT pg_notify($1, g || ' ' || repeat('x', 7900)) FROM generate_series(1, 4000) g`, schema+"_queues")
	e2e.Await(t, 20*time.Second, "the server to wait for the process", func() (bool, string) { return sessions(`wait_event = 'ClientWrite'`) > 0, "" })
	e2e.Await(t, 60*time.Second, "the server to give up", func() (bool, string) { return sessions(`wait_event = 'ClientWrite'`) == 0, "" })
}

// TestATransactionOfAFrozenProcessEndsBehindPgBouncer, which refuses the setting for connections.
func TestATransactionOfAFrozenProcessEndsBehindPgBouncer(t *testing.T) {
	long.Only(t, "the server waits for 30 seconds")
	url, schema := pgtest.Bouncer(t), pgtest.Schema(t)
	e := pgtest.OpenAt(t, url, postgres.Options{Schema: schema})
	insert(t, schema, "a")
	took, freed := make(chan bool), make(chan bool)
	stepped := make(chan error)
	go func() {
		_, err := e.Outbox().Step(context.Background(), func(_ context.Context, rows []outbox.Row) []outbox.Verdict {
			took <- true
			<-freed // the process is frozen
			return make([]outbox.Verdict, len(rows))
		})
		stepped <- err
	}()
	<-took
	c := session(t, "another process")
	ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
	defer cancel()
	if _, err := c.Exec(ctx, `UPDATE `+schema+`.outbox SET tries = 0`); err != nil {
		t.Errorf("a row of the frozen process stays locked: %v", err)
	}
	close(freed)
	if err := <-stepped; err == nil {
		t.Error("the transaction of the frozen process went on")
	}
}
