package tabletest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"fedpost/internal/engine/table"
)

// one checks that one of all writes won and that all others had a conflict.
func (c *check) one(write func(i int) error) {
	c.Helper()
	var won atomic.Int32
	together(func(i int) {
		switch err := write(i); {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, table.ErrConflict):
			c.Errorf("caller %d: %v", i, err)
		}
	})
	if won.Load() != 1 {
		c.Errorf("%d of %d callers won, want one", won.Load(), callers)
	}
}

var raceCases = []testCase{
	{"RaceForAFreeKey", func(c *check) {
		c.one(func(i int) error { return c.Table.Put(c.ctx, c.item("a", fmt.Sprint(i)), table.Free(c.now)) })
	}},
	{"RaceForAnExpiredKey", func(c *check) {
		c.prepare("a", expired)
		c.one(func(i int) error { return c.Table.Put(c.ctx, c.item("a", fmt.Sprint(i)), table.Free(c.now)) })
	}},
	{"RaceForAFence", func(c *check) {
		c.put(c.item("a", "start"))
		c.one(func(i int) error { return c.Table.Put(c.ctx, c.item("a", fmt.Sprint(i)), table.Fenced("start")) })
	}},
	{"RaceToDelete", func(c *check) {
		c.put(c.item("a", "start"))
		c.one(func(int) error { return c.Table.Delete(c.ctx, c.key("a"), table.Fenced("start")) })
	}},
	{"RaceOfTransactions", func(c *check) {
		// Each transaction takes the lock and writes a trace; the losers must
		// leave no trace.
		c.one(func(i int) error {
			lock, trace := c.item("lock", fmt.Sprint(i)), c.item(fmt.Sprintf("trace %02d", i), "1")
			return c.Table.Transact(c.ctx, []table.Op{{Put: &trace}, {Put: &lock, Cond: table.Cond{Absent: true}}})
		})
		got, _, err := c.Table.Query(c.ctx, table.Prefix(c.pk, "trace"))
		if err != nil || len(got) != 1 {
			c.Errorf("%d traces, error %v, want one", len(got), err)
		}
	}},
	{"RaceToCount", func(c *check) {
		// Each goroutine reads, adds one and writes by compare-and-swap until
		// that succeeds: no increment may be lost.
		c.put(table.Item{Key: c.key("n"), Fence: "0"})
		together(func(i int) {
			for c.ctx.Err() == nil {
				got, err := c.Table.Get(c.ctx, c.key("n"))
				if err != nil {
					c.Errorf("caller %d: %v", i, err)
					return
				}
				var n int
				if _, err := fmt.Sscan(got[c.key("n")].Fence, &n); err != nil {
					c.Errorf("caller %d: %v", i, err)
					return
				}
				err = c.Table.Put(c.ctx, table.Item{Key: c.key("n"), Fence: fmt.Sprint(n + 1)}, table.Fenced(fmt.Sprint(n)))
				if err == nil {
					return
				}
				if !errors.Is(err, table.ErrConflict) {
					c.Errorf("caller %d: %v", i, err)
					return
				}
			}
		})
		if got := c.get("n"); got == nil || got.Fence != fmt.Sprint(callers) {
			c.Errorf("counted to %v, want %d", got, callers)
		}
	}},
}
