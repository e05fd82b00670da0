package tabletest

import (
	"bytes"
	"errors"

	"fedpost/internal/engine/table"
)

var bulkCases = []testCase{
	{"PutAllAndDeleteAllOfNone", func(c *check) {
		if err := c.Table.PutAll(c.ctx, nil); err != nil {
			c.Error(err)
		}
		if err := c.Table.DeleteAll(c.ctx, nil); err != nil {
			c.Error(err)
		}
	}},
	{"PutAllAndDeleteAllOfMany", func(c *check) {
		want := numbered("i%03d", 130)
		var items []table.Item
		var keys []table.Key
		for _, sk := range want {
			items, keys = append(items, c.item(sk, "1")), append(keys, c.key(sk))
		}
		c.put(c.item(want[7], "before"))
		if err := c.Table.PutAll(c.ctx, items); err != nil {
			c.Fatal(err)
		}
		c.query(table.Range{PK: c.pk}, false, want...)
		c.holds(want[7], &items[7])
		keys[3] = c.key("missing") // which is no error
		if err := c.Table.DeleteAll(c.ctx, keys); err != nil {
			c.Fatal(err)
		}
		c.query(table.Range{PK: c.pk}, false, want[3])
	}},
	{"PutAllOfMoreThanARequestHolds", func(c *check) {
		// DynamoDB takes 16 MiB in one request.
		want := numbered("i%02d", 50)
		var items []table.Item
		for i, sk := range want {
			it := c.item(sk, "1")
			it.Data = bytes.Repeat([]byte{byte(i)}, 390<<10)
			items = append(items, it)
		}
		if err := c.Table.PutAll(c.ctx, items); err != nil {
			c.Fatal(err)
		}
		c.query(table.Range{PK: c.pk}, false, want...)
	}},
	{"PutAllOfATooLargeItem", func(c *check) {
		over := c.item("over", "1")
		over.Data = make([]byte, table.MaxItem+1)
		if err := c.Table.PutAll(c.ctx, []table.Item{c.item("a", "1"), over}); !errors.Is(err, table.ErrTooLarge) {
			c.Errorf("error %v, want %v", err, table.ErrTooLarge)
		}
		c.holds("over", nil)
	}},
}
