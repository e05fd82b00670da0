package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tolerance is how far the server's clock may be from where it should be by the process's.
	tolerance = time.Minute
	// adoptAfter is how long the server's clock has to be elsewhere until the process follows it.
	adoptAfter = 10 * time.Minute
)

// clock is the time of queues: the server's, while that goes on as the process's clock does. A
// server's clock that jumps ahead for some seconds would hide messages for as long as it jumped,
// and have others dropped by age. Until the server's clock is back, or elsewhere for adoptAfter,
// the time goes on by the process's.
type clock struct {
	exact func() time.Time // for tests: the time of queues; nil: the server's
	own   func() time.Time // goes on without the jumps of the machine's clock
	wall  func() time.Time
	log   *slog.Logger

	ahead atomic.Int64 // of the server's clock before own, in milliseconds

	mu   sync.Mutex
	away time.Time // since when the server's clock is elsewhere, by own; zero: it is not
	said bool
}

// arguments is the argument $1 of statements that use the time: where the server's clock should be,
// and how far it may be from there; -1: it does not matter.
func (c *clock) arguments() []int64 {
	if c.exact != nil {
		return []int64{c.exact().UnixMilli(), -1}
	}
	return []int64{c.own().UnixMilli() + c.ahead.Load(), tolerance.Milliseconds()}
}

// moment is the time for what is kept in memory, and that of items, which callers set by the
// process's clock.
func (c *clock) moment() time.Time {
	if c.exact == nil {
		return time.Now()
	}
	return c.exact()
}

// now is the time in milliseconds in a statement whose $1 is clock.arguments. The time of the
// statement, unlike clock_timestamp(), can be looked up in an index.
const now = `CASE WHEN abs(` + servers + ` - ($1::bigint[])[1]) <= ($1::bigint[])[2] THEN ` + servers + ` ELSE ($1::bigint[])[1] END`

const servers = `floor(date_part('epoch', statement_timestamp()) * 1000)::bigint`

// withNow begins a statement that uses the time as (SELECT now FROM t).
const withNow = `WITH t AS MATERIALIZED (SELECT ` + now + ` AS now) `

// learn makes the server's clock the time of queues as it is.
func (e *Engine) learn(ctx context.Context) error {
	server, err := e.serverTime(ctx)
	if err == nil {
		e.clock.ahead.Store(server.Sub(e.clock.own()).Milliseconds())
	}
	return err
}

func (e *Engine) serverTime(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var ms int64
	if err := e.pool.QueryRow(ctx, `SELECT `+servers).Scan(&ms); err != nil {
		return time.Time{}, fmt.Errorf("ask the server for its time: %w", err)
	}
	return time.UnixMilli(ms), nil
}

// FollowClock compares the server's clock with the process's. Call it every minute in each process.
// It reports whether they agree: only then may things be dropped for their age.
func (e *Engine) FollowClock(ctx context.Context) (agree bool, err error) {
	if e.clock.exact != nil {
		return true, nil
	}
	server, err := e.serverTime(ctx)
	if err != nil {
		return false, err
	}
	return e.clock.follow(ctx, server), nil
}

func (c *clock) follow(ctx context.Context, server time.Time) (agree bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, differ := c.own(), server.Sub(c.wall())
	ahead := server.Sub(own)
	jumped := ahead - time.Duration(c.ahead.Load())*time.Millisecond
	switch {
	case jumped.Abs() <= tolerance:
		c.away = time.Time{}
		c.ahead.Store(ahead.Milliseconds())
	case c.away.IsZero():
		c.away = own
	case own.Sub(c.away) >= adoptAfter:
		c.log.WarnContext(ctx, "the clock of the database's server stays where it has jumped to; the queues follow it from now on", "jump", jumped.Round(time.Second).String())
		c.away = time.Time{}
		c.ahead.Store(ahead.Milliseconds())
		jumped = 0
	}
	agree = jumped.Abs() <= tolerance && differ.Abs() <= tolerance
	if !agree && !c.said {
		c.log.WarnContext(ctx, "the clocks of the database's server and of this process differ: set them by NTP; nothing is removed for its age meanwhile",
			"serverAhead", differ.Round(time.Second).String(), "jump", jumped.Round(time.Second).String())
	}
	if agree && c.said {
		c.log.InfoContext(ctx, "the clocks of the database's server and of this process agree again")
	}
	c.said = !agree
	return agree
}
