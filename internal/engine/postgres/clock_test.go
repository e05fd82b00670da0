package postgres_test

import (
	"log/slog"
	"testing"
	"time"

	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/testkit/engines/pgtest"
)

// jumping opens an engine before a server whose clock can jump: as nobody can set that clock, the
// process's clocks jump the other way.
func jumping(t *testing.T, schema string, log *said) (e *postgres.Engine, jump func(time.Duration)) {
	t.Helper()
	c := queuetest.ClockAt(time.Time{})
	now := func() time.Time { return time.Now().Add(c.Now().Sub(time.Time{})) }
	e = pgtest.Open(t, postgres.Options{Schema: schema, Clock: now, Log: slog.New(slog.NewTextHandler(log, nil))})
	e.SetWall(now)
	return e, func(d time.Duration) { c.Advance(-d) }
}

func TestNothingGoesByAgeWhileTheServersClockIsAhead(t *testing.T) {
	schema, log := pgtest.Schema(t), new(said)
	e, jump := jumping(t, schema, log)
	for _, n := range []queue.Name{queue.Normal, queue.Ordered} {
		m := queue.Message{Body: "x"}
		if n.Ordered() {
			m.OrderingKey, m.DeduplicationKey = "g", "k"
		}
		if err := e.Queue(n).Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	// From now on these rows are as old by the server's clock as if it had jumped.
	const ahead = 20 * 24 * time.Hour
	for _, table := range []string{"lease", "fifo_lease"} {
		pgtest.Exec(t, `UPDATE `+schema+`.`+table+` SET sent = sent - $1::bigint, visible = visible - $1::bigint`, ahead.Milliseconds())
	}
	pgtest.Exec(t, `UPDATE `+schema+`.fifo_group SET free = free - $1::bigint`, ahead.Milliseconds())
	jump(ahead)
	for range 2 {
		if err := e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := log.count("nothing is removed for its age"); n != 1 {
		t.Errorf("it was said %d times that clocks differ, want once", n)
	}
	for _, n := range []queue.Name{queue.Normal, queue.Ordered} {
		got, err := e.Queue(n).Receive(t.Context(), queue.ReceiveOptions{Max: 1})
		if err != nil || len(got) != 1 {
			t.Errorf("%s: received %d messages, error %v, want the one that was sent", n, len(got), err)
		}
	}
	jump(-ahead)
	if err := e.Sweep(t.Context()); err != nil || !log.has("agree again") {
		t.Errorf("error %v; after the jump, the log does not say that clocks agree", err)
	}
}

func TestAJumpOfTheServersClockHidesNothingForItsLength(t *testing.T) {
	e, jump := jumping(t, pgtest.Schema(t), new(said))
	q := e.Queue(queue.Normal)
	if err := q.Send(t.Context(), queue.Message{Body: "x"}); err != nil {
		t.Fatal(err)
	}
	receive := func(wait time.Duration) queue.Received {
		t.Helper()
		got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 1, Wait: wait})
		if err != nil || len(got) != 1 {
			t.Fatalf("received %d messages, error %v, want one", len(got), err)
		}
		return got[0]
	}
	m := receive(0)
	jump(2 * time.Hour)
	if err := q.ChangeVisibility(t.Context(), m.Handle, time.Second); err != nil {
		t.Fatal(err)
	}
	jump(-2 * time.Hour)
	receive(0)
}

func TestAServersClockThatStaysElsewhereIsFollowed(t *testing.T) {
	e, jump := jumping(t, pgtest.Schema(t), new(said))
	const ahead = 2 * time.Hour
	agree := func(want bool) {
		t.Helper()
		if got, err := e.FollowClock(t.Context()); err != nil || got != want {
			t.Errorf("the clocks agree: %t, error %v, want %t", got, err, want)
		}
	}
	agree(true)
	jump(ahead)
	e.SetWall(time.Now) // the machine's clock is the server's
	agree(false)
	jump(-9 * time.Minute)
	agree(false)
	jump(-time.Minute)
	agree(true)
}

func TestAServersClockThatIsWrongFromTheStartIsSaid(t *testing.T) {
	log := new(said)
	e, _ := jumping(t, pgtest.Schema(t), log)
	e.SetWall(func() time.Time { return time.Now().Add(-time.Hour) })
	if agree, err := e.FollowClock(t.Context()); agree || err != nil || !log.has("serverAhead=1h0m0s") {
		t.Errorf("the clocks agree: %t, error %v, the log says by how much they differ: %t", agree, err, log.has("serverAhead=1h0m0s"))
	}
}
