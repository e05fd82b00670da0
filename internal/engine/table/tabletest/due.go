package tabletest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/engine/table"
)

func (c *check) dueItem(sk, shard string, at time.Time) table.Item {
	it := c.item(sk, "1")
	it.Due = table.Due{Shard: c.pk + shard, At: at}
	return it
}

func (c *check) due(shard string, by time.Time, limit int, want ...string) {
	c.Helper()
	c.settle()
	got, err := c.Table.Due(c.ctx, c.pk+shard, by, limit)
	if err != nil {
		c.Fatalf("due: %v", err)
	}
	if !slices.Equal(sks(got), want) {
		c.Errorf("due in %s by %s, %d: %q, want %q", shard, by.Sub(c.now), limit, sks(got), want)
	}
}

var dueCases = []testCase{
	{"DueIsEarliestFirst", func(c *check) {
		c.put(
			c.dueItem("c", "s", c.now.Add(3*time.Millisecond)), c.dueItem("z", "s", c.now.Add(time.Millisecond)),
			c.dueItem("a", "s", c.now.Add(2*time.Millisecond)), c.dueItem("later", "s", c.now.Add(time.Hour)),
			c.dueItem("long ago", "s", c.now.Add(-1000*time.Hour)), c.item("never", "1"),
		)
		c.due("s", c.now.Add(3*time.Millisecond), 100, "long ago", "z", "a", "c")
		c.due("s", c.now.Add(2*time.Millisecond), 100, "long ago", "z", "a")
		c.due("s", c.now.Add(3*time.Millisecond), 2, "long ago", "z")
		c.due("s", c.now.Add(-2000*time.Hour), 100)
	}},
	{"DueOfOneShard", func(c *check) {
		c.put(c.dueItem("a", "s", c.now), c.dueItem("b", "t", c.now))
		c.due("s", c.now, 100, "a")
		c.due("t", c.now, 100, "b")
		c.due("u", c.now, 100)
	}},
	{"DueGivesWholeItems", func(c *check) {
		it := c.dueItem("a", "s", c.now.Add(1500*time.Millisecond))
		it.Data = allBytes()
		c.put(it)
		c.settle()
		got, err := c.Table.Due(c.ctx, c.pk+"s", c.now.Add(time.Minute), 10)
		if err != nil || len(got) != 1 || !same(got[0], it) {
			c.Errorf("due gives %v, error %v, want %v", got, err, it)
		}
	}},
	{"DueFollowsWrites", func(c *check) {
		c.put(c.dueItem("a", "s", c.now), c.dueItem("b", "s", c.now.Add(time.Second)), c.dueItem("c", "s", c.now.Add(2*time.Second)))
		c.due("s", c.now.Add(time.Minute), 100, "a", "b", "c")
		c.put(c.dueItem("a", "s", c.now.Add(3*time.Second)))
		c.due("s", c.now.Add(time.Minute), 100, "b", "c", "a")
		c.put(c.item("b", "1"))
		c.due("s", c.now.Add(time.Minute), 100, "c", "a")
		c.put(c.dueItem("c", "t", c.now))
		c.due("s", c.now.Add(time.Minute), 100, "a")
		if err := c.Table.Delete(c.ctx, c.key("a"), table.Cond{}); err != nil {
			c.Fatal(err)
		}
		c.due("s", c.now.Add(time.Minute), 100)
	}},
	{"DueOfMoreThanAMebibyte", func(c *check) {
		want := numbered("i%02d", 12)
		for i, sk := range want {
			it := c.dueItem(sk, "s", c.now.Add(time.Duration(i)*time.Second))
			it.Data = bytes.Repeat([]byte{byte(i)}, 200<<10)
			c.put(it)
		}
		c.due("s", c.now.Add(time.Minute), 100, want...)
		c.due("s", c.now.Add(time.Minute), 11, want[:11]...)
		c.due("s", c.now.Add(time.Minute), 0, want...)
	}},
	{"DueOfExpiredItems", func(c *check) {
		it := c.dueItem("a", "s", c.now)
		it.Expires = c.now.Add(-time.Minute)
		c.put(it)
		c.due("s", c.now, 100, "a")
	}},
	{"DueAtTheSameTime", func(c *check) {
		want := numbered("i%02d", 30)
		for _, sk := range want {
			c.put(c.dueItem(sk, "s", c.now))
		}
		c.settle()
		got, err := c.Table.Due(c.ctx, c.pk+"s", c.now, 100)
		if have := slices.Sorted(slices.Values(sks(got))); err != nil || fmt.Sprint(have) != fmt.Sprint(want) {
			c.Errorf("due gives %q, error %v, want all 30", have, err)
		}
	}},
}
