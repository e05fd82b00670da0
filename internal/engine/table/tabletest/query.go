package tabletest

import (
	"bytes"
	"fmt"
	"slices"

	"fedpost/internal/engine/table"
)

func numbered(format string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return all
}

func (c *check) query(r table.Range, more bool, want ...string) {
	c.Helper()
	got, cut, err := c.Table.Query(c.ctx, r)
	if err != nil {
		c.Fatalf("query %+v: %v", r, err)
	}
	if !slices.Equal(sks(got), want) || cut != more {
		c.Errorf("query %+v gives %q and %t, want %q and %t", r, sks(got), cut, want, more)
	}
}

var queryCases = []testCase{
	{"QueryIsInOrderOfBytes", func(c *check) {
		want := []string{" ", "!", "0", "10", "2", "A", "Z", "_", "a", "aa", "b", "z", "~", "é", "世", "\ufffd", "🎉"}
		for i := len(want) - 1; i >= 0; i-- {
			c.put(c.item(want[i], "1"))
		}
		c.query(table.Range{PK: c.pk}, false, want...)
	}},
	{"QueryOfARange", func(c *check) {
		for _, sk := range []string{"a", "b", "b1", "c", "d"} {
			c.put(c.item(sk, "1"))
		}
		c.query(table.Range{PK: c.pk, From: "b"}, false, "b", "b1", "c", "d")
		c.query(table.Range{PK: c.pk, To: "c"}, false, "a", "b", "b1")
		c.query(table.Range{PK: c.pk, From: "b", To: "d"}, false, "b", "b1", "c")
		c.query(table.Range{PK: c.pk, From: "b0", To: "c"}, false, "b1")
		c.query(table.Range{PK: c.pk, From: "x", To: "y"}, false)
		c.query(table.Range{PK: c.pk, From: "c", To: "c"}, false)
		c.query(table.Range{PK: c.pk, From: "d", To: "b"}, false)
	}},
	{"QueryOfAPrefix", func(c *check) {
		for _, sk := range []string{"a", "a#", "a#1", "a#2", "a#~", "a$", "b", "é", "éa", "ê", "~", "~a", "🎉1", "🎉2"} {
			c.put(c.item(sk, "1"))
		}
		c.query(table.Prefix(c.pk, "a#"), false, "a#", "a#1", "a#2", "a#~")
		c.query(table.Prefix(c.pk, "a"), false, "a", "a#", "a#1", "a#2", "a#~", "a$")
		c.query(table.Prefix(c.pk, "é"), false, "é", "éa")
		c.query(table.Prefix(c.pk, "~"), false, "~", "~a")
		c.query(table.Prefix(c.pk, "🎉"), false, "🎉1", "🎉2")
		c.query(table.Prefix(c.pk, "none"), false)
		all, _, err := c.Table.Query(c.ctx, table.Prefix(c.pk, ""))
		if err != nil || len(all) != 14 {
			c.Errorf("the empty prefix gives %d items, error %v", len(all), err)
		}
	}},
	{"QueryWithALimit", func(c *check) {
		for _, sk := range []string{"a", "b", "c"} {
			c.put(c.item(sk, "1"))
		}
		c.query(table.Range{PK: c.pk, Limit: 2}, true, "a", "b")
		c.query(table.Range{PK: c.pk, Limit: 3}, false, "a", "b", "c")
		c.query(table.Range{PK: c.pk, Limit: 4}, false, "a", "b", "c")
		c.query(table.Range{PK: c.pk, From: "b", Limit: 1}, true, "b")
		c.query(table.Range{PK: c.pk, To: "c", Limit: 2}, false, "a", "b")
	}},
	{"QueryOfTheNewest", func(c *check) {
		for _, sk := range []string{"a", "b", "c", "d", "é", "世"} {
			c.put(c.item(sk, "1"))
		}
		c.query(table.Range{PK: c.pk, Newest: true}, false, "世", "é", "d", "c", "b", "a")
		c.query(table.Range{PK: c.pk, Newest: true, Limit: 1}, true, "世")
		c.query(table.Range{PK: c.pk, From: "b", To: "d", Newest: true}, false, "c", "b")
		c.query(table.Range{PK: c.pk, From: "b", To: "d", Newest: true, Limit: 1}, true, "c")
		c.query(table.Range{PK: c.pk, From: "b", To: "d", Newest: true, Limit: 2}, false, "c", "b")
		c.query(table.Range{PK: c.pk, From: "d", To: "b", Newest: true}, false)
		newest := table.Prefix(c.pk, "世")
		newest.Newest = true
		c.query(newest, false, "世")
		end := table.Prefix(c.pk, "c\x7f") // whose end no engine can name
		end.Newest, end.From = true, "b"
		c.query(end, false, "c", "b")
	}},
	{"QueryStaysInItsPartition", func(c *check) {
		c.put(c.item("a", "1"))
		other := c.item("b", "1")
		other.PK += "/other"
		c.put(other)
		c.query(table.Range{PK: c.pk}, false, "a")
		c.query(table.Range{PK: c.pk + "/none"}, false)
	}},
	{"QueryOfMoreThanAMebibyte", func(c *check) {
		// DynamoDB gives 1 MiB at a time; a filter or a limit must not end it.
		want := numbered("i%02d", 14)
		for i, sk := range want {
			it := c.item(sk, "1")
			it.Data = bytes.Repeat([]byte{byte(i)}, 300<<10)
			c.put(it)
		}
		c.query(table.Range{PK: c.pk}, false, want...)
		c.query(table.Range{PK: c.pk, Limit: 10}, true, want[:10]...)
		c.query(table.Prefix(c.pk, "i0"), false, want[:10]...)
		got, _, err := c.Table.Query(c.ctx, table.Range{PK: c.pk, From: "i07", Limit: 1})
		if err != nil || len(got) != 1 || len(got[0].Data) != 300<<10 || got[0].Data[0] != 7 {
			c.Errorf("%q, error %v, want i07 with its data", sks(got), err)
		}
	}},
	{"QuerySeesEveryWriteBefore", func(c *check) {
		for i := range 20 {
			it := c.item("a", fmt.Sprint(i))
			c.put(it)
			got, _, err := c.Table.Query(c.ctx, table.Range{PK: c.pk})
			if err != nil || len(got) != 1 || got[0].Fence != it.Fence {
				c.Fatalf("after write %d: %v, error %v", i, got, err)
			}
		}
	}},
}
