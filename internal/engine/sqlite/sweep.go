package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/engine/queue"
)

// Grace is how long expired items stay in the table. DynamoDB takes days to drop
// them, so callers must cope with expired items; the embedded engine keeps them
// for a while so that tests show whether callers do.
const Grace = time.Hour

const sweepStep = 500

// Sweep drops expired data (items expired for longer than Grace,
// messages past their retention, deduplication ids past their window) and gives
// free space back to the disk, that of the write-ahead log, too. Call it every few minutes.
func (e *Engine) Sweep(ctx context.Context) error {
	now := e.now()
	if err := e.drop(ctx, `DELETE FROM item WHERE rowid IN (SELECT rowid FROM item WHERE expires <= ? LIMIT ? + 0)`,
		now.Add(-Grace).UnixNano()); err != nil {
		return fmt.Errorf("sweep expired items: %w", err)
	}
	if err := e.drop(ctx, `DELETE FROM dedup WHERE (queue, id) IN (SELECT queue, id FROM dedup WHERE until <= ? LIMIT ? + 0)`,
		now.UnixMilli()); err != nil {
		return fmt.Errorf("sweep deduplication ids: %w", err)
	}
	for _, n := range queue.Names {
		if err := e.outdated(ctx, n, now); err != nil {
			return fmt.Errorf("sweep old messages of %s: %w", n, err)
		}
	}
	return errors.Join(e.shrink(ctx), e.boundLog(ctx))
}

// drop repeats a DELETE that is bounded by sweepStep until nothing is left.
func (e *Engine) drop(ctx context.Context, query string, before int64) error {
	for {
		var n int64
		err := e.write(ctx, func(s *session) error {
			res, err := s.change(query, before, sweepStep)
			if err != nil {
				return err
			}
			n, err = res.RowsAffected()
			return err
		})
		if err != nil || n < sweepStep {
			return err
		}
	}
}

// outdated deletes messages past their retention. It looks for them on a read
// connection, because the search reads the whole queue and would hold up writers.
func (e *Engine) outdated(ctx context.Context, n queue.Name, now time.Time) error {
	oldest := now.Add(-e.configs[n].Retention).UnixMilli()
	for {
		groups := make(map[int64]string)
		err := e.read(ctx, func(s *session) error {
			clear(groups)
			return s.each(`SELECT seq, grp FROM message WHERE queue = ? AND sent <= ? LIMIT ? + 0`,
				[]any{string(n), oldest, sweepStep}, func(scan func(...any) error) error {
					var seq int64
					var group string
					err := scan(&seq, &group)
					groups[seq] = group
					return err
				})
		})
		if err != nil || len(groups) == 0 {
			return err
		}
		err = e.write(ctx, func(s *session) error {
			for seq, group := range groups {
				if err := discard(s, `seq = ? AND queue = ?`, seq, string(n)); err != nil {
					return err
				}
				if !e.typ.FIFO(n) {
					continue
				}
				if _, err := settleGroup(s, n, group, now.UnixMilli()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}

// shrink gives a few megabytes of free pages back to the disk. It gives back no
// more at a time, because writers wait while SQLite moves pages.
func (e *Engine) shrink(ctx context.Context) error {
	err := e.write(ctx, func(s *session) error {
		return s.each(`PRAGMA incremental_vacuum(1000)`, nil, func(func(...any) error) error { return nil })
	})
	if err != nil {
		return fmt.Errorf("sweep: give space back: %w", err)
	}
	return nil
}
