package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/outbox"
	"fedpost/internal/engine/postgres"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/engines/pgtest"
)

// insert puts rows into the outbox of a schema, as an application does.
func insert(t *testing.T, schema string, requests ...string) {
	t.Helper()
	for _, r := range requests {
		pgtest.Exec(t, `INSERT INTO `+schema+`.outbox (request) VALUES ($1)`, r)
	}
}

// running runs an outbox until the returned function is called.
func running(t *testing.T, o postgres.Outbox, accept outbox.Accept) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { o.Run(ctx, accept) })
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return stop
}

// ended waits until no row waits.
func ended(t *testing.T, schema string) {
	t.Helper()
	e2e.Await(t, 30*time.Second, "no row to wait", func() (bool, string) {
		n := pgtest.Count(t, schema+".outbox WHERE ended IS NULL")
		return n == 0, fmt.Sprintf("%d rows wait", n)
	})
}

// each makes an outbox.Accept of a function about one row.
func each(f func(outbox.Row) outbox.Verdict) outbox.Accept {
	return func(_ context.Context, rows []outbox.Row) []outbox.Verdict {
		verdicts := make([]outbox.Verdict, len(rows))
		for i, r := range rows {
			verdicts[i] = f(r)
		}
		return verdicts
	}
}

// accepted accepts a row as an activity that is named after its request.
func accepted(r outbox.Row) outbox.Verdict { return outbox.Verdict{Activity: "of " + r.Request} }

func rowsOf(t *testing.T, o postgres.Outbox, state outbox.State) []outbox.Row {
	t.Helper()
	rows, err := o.List(t.Context(), state, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestRowsOfTheOutboxEndAsTheirVerdictsSay(t *testing.T) {
	schema := pgtest.Schema(t)
	o := pgtest.Open(t, postgres.Options{Schema: schema}).Outbox()
	insert(t, schema, "good", "bad", "broken")
	var broken atomic.Int32
	stop := running(t, o, each(func(r outbox.Row) outbox.Verdict {
		switch r.Request {
		case "bad":
			return outbox.Verdict{Problem: `{"status":400}`, Tried: true}
		case "broken":
			if broken.Add(1) < 3 {
				return outbox.Verdict{Tried: true}
			}
		}
		return accepted(r)
	}))
	ended(t, schema)
	stop()
	var got []string
	for _, r := range rowsOf(t, o, "") {
		got = append(got, fmt.Sprintf("%s %s%s after %d", r.State, r.Activity, r.Problem, r.Tries))
	}
	want := []string{"accepted of good after 0", `refused {"status":400} after 1`, "accepted of broken after 2"}
	if !slices.Equal(got, want) {
		t.Errorf("the rows are\n%q, want\n%q", got, want)
	}
	d, err := o.Depth(t.Context())
	if err != nil || d != (outbox.Depth{Refused: 1}) {
		t.Errorf("depth %+v, error %v, want one refused row", d, err)
	}
}

// TestOneProcessAtATimeAcceptsRowsInTheirOrder: two processes would accept rows of one
// ordering key in any order. So while one process accepts rows, another one gets none.
func TestOneProcessAtATimeAcceptsRowsInTheirOrder(t *testing.T) {
	schema := pgtest.Schema(t)
	one, other := pgtest.Open(t, postgres.Options{Schema: schema}).Outbox(), pgtest.Open(t, postgres.Options{Schema: schema}).Outbox()
	const rows = 150 // more than two batches
	pgtest.Exec(t, `INSERT INTO `+schema+`.outbox (request) SELECT n::text FROM generate_series(1, $1::int) n`, rows)
	var got []string
	accept := each(func(r outbox.Row) outbox.Verdict {
		if n := len(got); n%50 == 0 {
			if _, err := other.Step(t.Context(), each(func(r outbox.Row) outbox.Verdict {
				t.Errorf("row %s is accepted beside others", r.Request)
				return outbox.Verdict{}
			})); err != nil {
				t.Error(err)
			}
		}
		got = append(got, r.Request)
		return accepted(r)
	})
	for more := true; more; {
		var err error
		if more, err = one.Step(t.Context(), accept); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for n := range rows {
		want = append(want, fmt.Sprint(n+1))
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows were accepted in the order %v, want that of their insertion, each once", got)
	}
}

// TestARowComesAgainIfItsVerdictIsLost breaks the connection before, or after, the server
// gets the COMMIT of a verdict. A row whose COMMIT the server had is accepted once.
func TestARowComesAgainIfItsVerdictIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		fault pgtest.Fault
		calls int32
	}{"before COMMIT": {pgtest.CutBefore, 2}, "after COMMIT": {pgtest.CutAfter, 1}} {
		t.Run(name, func(t *testing.T) {
			schema := pgtest.Schema(t)
			var deciding, broken atomic.Bool
			p := pgtest.NewProxy(t, func(request []byte) pgtest.Fault {
				if deciding.Load() && bytes.Contains(request, []byte("COMMIT")) && !broken.Swap(true) {
					return c.fault
				}
				return pgtest.Pass
			})
			// In this mode the proxy sees the text of each statement.
			o := pgtest.OpenAt(t, p.URL+"&default_query_exec_mode=exec", postgres.Options{Schema: schema}).Outbox()
			insert(t, schema, "x")
			var calls atomic.Int32
			running(t, o, each(func(r outbox.Row) outbox.Verdict {
				calls.Add(1)
				deciding.Store(true)
				return accepted(r)
			}))
			ended(t, schema)
			if got := rowsOf(t, o, outbox.Accepted); calls.Load() != c.calls || len(got) != 1 || !broken.Load() {
				t.Errorf("accepted %d times, rows %+v; want %d times and one row", calls.Load(), got, c.calls)
			}
		})
	}
}

// TestANotificationWakesTheOutbox: a wake-up must not need the poll, which comes after a second. So
// the worker is notified while it waits, again and again.
func TestANotificationWakesTheOutbox(t *testing.T) {
	schema := pgtest.Schema(t)
	o := pgtest.Open(t, postgres.Options{Schema: schema}).Outbox()
	running(t, o, each(accepted))
	c, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	fast := 0
	e2e.Await(t, 30*time.Second, "a row to be accepted long before the next poll", func() (bool, string) {
		began := time.Now()
		if _, err := c.Exec(t.Context(), fmt.Sprintf(`INSERT INTO %[1]s.outbox (request) VALUES ('x'); NOTIFY %[1]s_queues, 'outbox'`, schema), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		ended(t, schema)
		if time.Since(began) < 300*time.Millisecond {
			fast++
		}
		return fast > 5, fmt.Sprintf("%d rows so far", fast)
	})
}

func TestOnlyRefusedRowsAreRetriedAndDropped(t *testing.T) {
	schema := pgtest.Schema(t)
	o := pgtest.Open(t, postgres.Options{Schema: schema}).Outbox()
	insert(t, schema, "a", "bad 1", "bad 2", "bad 3")
	stop := running(t, o, each(func(r outbox.Row) outbox.Verdict {
		if strings.HasPrefix(r.Request, "bad") {
			return outbox.Verdict{Problem: `{}`}
		}
		return accepted(r)
	}))
	ended(t, schema)
	stop()
	first := rowsOf(t, o, outbox.Accepted)[0].ID
	for _, c := range []struct {
		what   string
		change func(context.Context, int64, int) (int, error)
		id     int64
		limit  int
		want   int
	}{
		{"retry an accepted row", o.Retry, first, 10, 0},
		{"drop an accepted row", o.Drop, first, 10, 0},
		{"drop one", o.Drop, first + 1, 10, 1},
		{"retry some", o.Retry, 0, 1, 1},
		{"drop one that waits", o.Drop, first + 2, 10, 0},
		{"drop all", o.Drop, 0, 10, 1},
	} {
		if n, err := c.change(t.Context(), c.id, c.limit); err != nil || n != c.want {
			t.Errorf("%s: %d rows, error %v; want %d", c.what, n, err, c.want)
		}
	}
	if waiting := rowsOf(t, o, outbox.Waiting); len(waiting) != 1 || waiting[0].ID != first+2 || waiting[0].Tries != 0 {
		t.Errorf("rows that wait: %+v, want the retried one alone", waiting)
	}
}

func TestSweepRemovesAcceptedRowsAlone(t *testing.T) {
	schema := pgtest.Schema(t)
	e := pgtest.Open(t, postgres.Options{Schema: schema, OutboxRetention: time.Hour})
	insert(t, schema, "new", "old", "refused", "waits")
	for request, set := range map[string]string{
		"new": "activity = 'x', ended = now() - interval '59 minutes'", "old": "activity = 'x', ended = now() - interval '61 minutes'",
		"refused": "problem = '{}', ended = now() - interval '1 year'", "waits": "created = now() - interval '1 year'",
	} {
		pgtest.Exec(t, `UPDATE `+schema+`.outbox SET `+set+` WHERE request = $1`, request)
	}
	if err := e.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, old := pgtest.Count(t, schema+".outbox"), pgtest.Count(t, schema+".outbox WHERE request = 'old'"); n != 3 || old != 0 {
		t.Errorf("%d rows are left, %d of them past their retention; want 3 and 0", n, old)
	}
}

// TestAnApplicationNeedsToInsertAndNothingElse has the grants of docs/running.md.
func TestAnApplicationNeedsToInsertAndNothingElse(t *testing.T) {
	schema := pgtest.Schema(t)
	pgtest.Open(t, postgres.Options{Schema: schema})
	role := "app_" + schema
	pgtest.Exec(t, `CREATE ROLE `+role)
	pgtest.Exec(t, `GRANT USAGE ON SCHEMA `+schema+` TO `+role)
	pgtest.Exec(t, `GRANT INSERT (request, deduplication_key) ON `+schema+`.outbox TO `+role)
	t.Cleanup(func() { pgtest.Exec(t, `DROP OWNED BY `+role); pgtest.Exec(t, `DROP ROLE `+role) })
	c, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	if _, err := c.Exec(t.Context(), `SET ROLE `+role); err != nil {
		t.Fatal(err)
	}
	for statement, allowed := range map[string]bool{
		`INSERT INTO %s.outbox (request, deduplication_key) VALUES ('{}', 'k')`: true,
		`INSERT INTO %s.outbox (request) VALUES ('{}')`:                         true,
		`INSERT INTO %s.outbox (request, activity) VALUES ('{}', 'x')`:          false,
		`SELECT request FROM %s.outbox`:                                         false,
		`UPDATE %s.outbox SET request = '{}'`:                                   false,
		`DELETE FROM %s.outbox`:                                                 false,
		`SELECT count(*) FROM %s.item`:                                          false,
	} {
		if _, err := c.Exec(t.Context(), fmt.Sprintf(statement, schema)); (err == nil) != allowed {
			t.Errorf("%s: error %v, want it allowed: %t", statement, err, allowed)
		}
	}
}

func TestARoleSeesWhatBecameOfItsOwnRows(t *testing.T) {
	schema := pgtest.Schema(t)
	e := pgtest.Open(t, postgres.Options{Schema: schema})
	insert(t, schema, "of fedpost's own role")
	c := session(t, "application")
	role := schema + "_app"
	do(t, c, `CREATE ROLE `+role)
	t.Cleanup(func() { pgtest.Exec(t, `DROP OWNED BY `+role); pgtest.Exec(t, `DROP ROLE `+role) })
	do(t, c, `GRANT USAGE ON SCHEMA `+schema+` TO `+role)
	do(t, c, `GRANT INSERT (request, deduplication_key), SELECT (id) ON `+schema+`.outbox TO `+role)
	do(t, c, `GRANT SELECT ON `+schema+`.outbox_own TO `+role)
	do(t, c, `SET ROLE `+role)
	var id, seen int64
	if err := c.QueryRow(t.Context(), `INSERT INTO `+schema+`.outbox (request) VALUES ('mine') RETURNING id`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	state := func(want string) {
		t.Helper()
		var got string
		if err := c.QueryRow(t.Context(), `SELECT id, state FROM `+schema+`.outbox_own`).Scan(&seen, &got); err != nil || seen != id || got != want {
			t.Errorf("row %d is %q, error %v, want %d and %q", seen, got, err, id, want)
		}
	}
	state("waiting")
	if _, err := e.Outbox().Step(t.Context(), each(accepted)); err != nil {
		t.Fatal(err)
	}
	state("accepted")
	if n := pgtest.Count(t, schema+".outbox_own"); n != 1 {
		t.Errorf("fedpost's own role sees %d rows, want its own one", n)
	}
	if _, err := c.Exec(t.Context(), `SELECT request FROM `+schema+`.outbox`); err == nil {
		t.Error("the role reads requests of all")
	}
}
