package tabletest

import (
	"fmt"

	"fedpost/internal/engine/table"
)

var transactCases = []testCase{
	{"TransactDoesAll", func(c *check) {
		old, kept := c.item("old", "1"), c.item("checked", "1")
		c.put(old, kept)
		added := c.item("new", "1")
		if err := c.Table.Transact(c.ctx, []table.Op{
			{Put: &added, Cond: table.Cond{Absent: true}},
			{Delete: &old.Key, Cond: table.Fenced("1")},
			{Check: &kept.Key, Cond: table.Fenced("1")},
		}); err != nil {
			c.Fatal(err)
		}
		c.holds("new", &added)
		c.holds("old", nil)
		c.holds("checked", &kept)
	}},
	{"TransactDoesAllOrNone", func(c *check) {
		// Whichever op fails, first, middle or last, none of the ops happens.
		for bad := range 3 {
			name := func(s string) string { return fmt.Sprintf("%s %d", s, bad) }
			old, kept := c.item(name("old"), "1"), c.item(name("checked"), "1")
			c.put(old, kept)
			added := c.item(name("new"), "1")
			ops := []table.Op{
				{Put: &added, Cond: table.Cond{Absent: true}},
				{Delete: &old.Key, Cond: table.Fenced("1")},
				{Check: &kept.Key, Cond: table.Fenced("1")},
			}
			ops[bad].Cond = table.Fenced("other")
			found := [...]*table.Item{nil, &old, &kept}[bad]
			sk := [...]string{"new", "old", "checked"}[bad]
			c.conflict(c.Table.Transact(c.ctx, ops), name(sk), found)
			c.holds(name("new"), nil)
			c.holds(name("old"), &old)
			c.holds(name("checked"), &kept)
		}
	}},
	{"TransactOfNone", func(c *check) {
		if err := c.Table.Transact(c.ctx, nil); err != nil {
			c.Error(err)
		}
	}},
	{"TransactOfAHundred", func(c *check) {
		var ops []table.Op
		for _, sk := range numbered("i%03d", table.MaxTransact+1) {
			it := c.item(sk, "1")
			ops = append(ops, table.Op{Put: &it, Cond: table.Cond{Absent: true}})
		}
		if err := c.Table.Transact(c.ctx, ops); err == nil {
			c.Error("101 ops in a transaction")
		}
		c.holds("i000", nil)
		if err := c.Table.Transact(c.ctx, ops[:table.MaxTransact]); err != nil {
			c.Fatal(err)
		}
		got, _, err := c.Table.Query(c.ctx, table.Range{PK: c.pk})
		if err != nil || len(got) != table.MaxTransact {
			c.Errorf("%d items, error %v", len(got), err)
		}
	}},
	{"TransactOfOneKeyTwiceIsRefused", func(c *check) {
		a, b := c.item("a", "1"), c.item("a", "2")
		if err := c.Table.Transact(c.ctx, []table.Op{{Put: &a}, {Put: &b}}); err == nil {
			c.Error("one key twice in a transaction")
		}
		c.holds("a", nil)
	}},
	{"TransactOverPartitions", func(c *check) {
		a, b := c.item("a", "1"), c.item("a", "1")
		b.PK += "/other"
		if err := c.Table.Transact(c.ctx, []table.Op{{Put: &a}, {Put: &b}}); err != nil {
			c.Fatal(err)
		}
		got, err := c.Table.Get(c.ctx, a.Key, b.Key)
		if err != nil || len(got) != 2 {
			c.Errorf("%d items, error %v, want both", len(got), err)
		}
	}},
}
