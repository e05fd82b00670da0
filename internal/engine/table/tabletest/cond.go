package tabletest

import (
	"time"

	"fedpost/internal/engine/table"
)

// The states of an item: each condition is tried against each state.
const (
	absent   = "absent"
	expired  = "expired"  // an hour ago
	expiring = "expiring" // this very second
	alive    = "alive"    // for another hour
	eternal  = "eternal"  // never expires
)

// states lists all of these. An item in any of them carries the fence "mine".
var states = []string{absent, expired, expiring, alive, eternal}

// prepare puts an item in a state and returns it, nil if absent.
func (c *check) prepare(sk, state string) *table.Item {
	c.Helper()
	it := c.item(sk, "mine")
	switch state {
	case absent:
		return nil
	case expired:
		it.Expires = c.now.Add(-time.Hour)
	case expiring:
		it.Expires = c.now
	case alive:
		it.Expires = c.now.Add(time.Hour)
	case eternal:
		it.Expires = time.Time{}
	}
	c.put(it)
	return &it
}

// matrix lists, for each condition, the states in which it holds.
func (c *check) matrix() []struct {
	name  string
	cond  table.Cond
	holds map[string]bool
} {
	set := func(states ...string) map[string]bool {
		m := make(map[string]bool)
		for _, s := range states {
			m[s] = true
		}
		return m
	}
	return []struct {
		name  string
		cond  table.Cond
		holds map[string]bool
	}{
		{"none", table.Cond{}, set(states...)},
		{"absent", table.Cond{Absent: true}, set(absent)},
		{"expired", table.Cond{ExpiredBy: c.now}, set(expired, expiring)},
		{"free", table.Free(c.now), set(absent, expired, expiring)},
		{"fence", table.Fenced("mine"), set(expired, expiring, alive, eternal)},
		{"other-fence", table.Fenced("other"), set()},
		{"absent-or-fence", table.Cond{Absent: true, Fence: "mine"}, set(states...)},
		{"absent-or-other-fence", table.Cond{Absent: true, Fence: "other"}, set(absent)},
		{"expired-or-fence", table.Cond{ExpiredBy: c.now, Fence: "mine"}, set(expired, expiring, alive, eternal)},
		{"expired-or-other-fence", table.Cond{ExpiredBy: c.now, Fence: "other"}, set(expired, expiring)},
		{"any", table.Cond{Absent: true, ExpiredBy: c.now, Fence: "other"}, set(absent, expired, expiring)},
	}
}

// try runs write on an item in every state under every condition and checks the
// result: want is what must be stored if the condition held.
func (c *check) try(write func(sk string, cond table.Cond) error, want func(sk string, before *table.Item) *table.Item) {
	for _, m := range c.matrix() {
		for _, state := range states {
			sk := m.name + " " + state
			before := c.prepare(sk, state)
			err := write(sk, m.cond)
			if m.holds[state] {
				if err != nil {
					c.Errorf("%s: %v", sk, err)
				}
				c.holds(sk, want(sk, before))
				continue
			}
			c.conflict(err, sk, before)
			c.holds(sk, before)
		}
	}
}

var condCases = []testCase{
	{"ConditionsOfPut", func(c *check) {
		next := func(sk string, _ *table.Item) *table.Item {
			it := c.item(sk, "next")
			return &it
		}
		c.try(func(sk string, cond table.Cond) error {
			return c.Table.Put(c.ctx, *next(sk, nil), cond)
		}, next)
	}},
	{"ConditionsOfDelete", func(c *check) {
		c.try(func(sk string, cond table.Cond) error {
			return c.Table.Delete(c.ctx, c.key(sk), cond)
		}, func(string, *table.Item) *table.Item { return nil })
	}},
	{"ConditionsOfTransact", func(c *check) {
		next := func(sk string, _ *table.Item) *table.Item {
			it := c.item(sk, "next")
			return &it
		}
		c.try(func(sk string, cond table.Cond) error {
			return c.Table.Transact(c.ctx, []table.Op{{Put: next(sk, nil), Cond: cond}})
		}, next)
	}},
	{"ConditionsOfTransactDelete", func(c *check) {
		c.try(func(sk string, cond table.Cond) error {
			k := c.key(sk)
			return c.Table.Transact(c.ctx, []table.Op{{Delete: &k, Cond: cond}})
		}, func(string, *table.Item) *table.Item { return nil })
	}},
	{"ConditionsOfTransactCheck", func(c *check) {
		c.try(func(sk string, cond table.Cond) error {
			if cond.Always() {
				return nil // a check of nothing is no check
			}
			k := c.key(sk)
			return c.Table.Transact(c.ctx, []table.Op{{Check: &k, Cond: cond}})
		}, func(_ string, before *table.Item) *table.Item { return before })
	}},
	{"ConditionOnAnItemWithoutFence", func(c *check) {
		it := table.Item{Key: c.key("a"), Data: []byte("x")}
		c.put(it)
		c.conflict(c.Table.Put(c.ctx, c.item("a", "next"), table.Fenced("mine")), "a", &it)
		c.holds("a", &it)
	}},
	{"FencesAreCompareAndSwap", func(c *check) {
		c.put(c.item("a", "1"))
		second := c.item("a", "2")
		if err := c.Table.Put(c.ctx, second, table.Fenced("1")); err != nil {
			c.Fatal(err)
		}
		c.conflict(c.Table.Put(c.ctx, c.item("a", "3"), table.Fenced("1")), "a", &second)
		c.conflict(c.Table.Delete(c.ctx, c.key("a"), table.Fenced("1")), "a", &second)
		c.holds("a", &second)
	}},
}
