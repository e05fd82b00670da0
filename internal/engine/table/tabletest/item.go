package tabletest

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"fedpost/internal/engine/table"
)

// allBytes has every byte, and every pair of neighbours that a careless
// conversion to text would change.
func allBytes() []byte {
	var b []byte
	for i := range 256 {
		b = append(b, byte(i), byte(255-i))
	}
	return append(b, "\r\n\x00é\xff"...)
}

var itemCases = []testCase{
	{"ItemComesBackAsItWasPut", func(c *check) {
		it := c.item("a", "fence ü")
		it.Data = allBytes()
		it.Due = table.Due{Shard: c.pk, At: c.now.Add(1234 * time.Millisecond)}
		c.put(it)
		c.holds("a", &it)
	}},
	{"ItemReplacesAllOfTheOneBefore", func(c *check) {
		it := c.item("a", "1")
		it.Due = table.Due{Shard: c.pk, At: c.now}
		c.put(it)
		bare := table.Item{Key: c.key("a"), Data: []byte("x")}
		c.put(bare)
		c.holds("a", &bare)
	}},
	{"ItemWithoutData", func(c *check) {
		c.put(table.Item{Key: c.key("nil")}, table.Item{Key: c.key("empty"), Data: []byte{}})
		for _, sk := range []string{"nil", "empty"} {
			if got := c.get(sk); got == nil || len(got.Data) != 0 || got.Fence != "" || !got.Expires.IsZero() || got.Due.Shard != "" {
				c.Errorf("%s holds %v, want an item with nothing but its key", sk, got)
			}
		}
	}},
	{"ItemThatExpiredIsStillThere", func(c *check) {
		it := c.item("a", "1")
		it.Expires = c.now.Add(-time.Minute)
		c.put(it)
		c.holds("a", &it)
		got, _, err := c.Table.Query(c.ctx, table.Range{PK: c.pk})
		if err != nil || len(got) != 1 || !same(got[0], it) {
			c.Errorf("query gives %v, error %v, want the expired item", got, err)
		}
	}},
	{"ItemIsDeleted", func(c *check) {
		c.put(c.item("a", "1"), c.item("b", "1"))
		if err := c.Table.Delete(c.ctx, c.key("a"), table.Cond{}); err != nil {
			c.Fatal(err)
		}
		c.holds("a", nil)
		if c.get("b") == nil {
			c.Error("its neighbour went with it")
		}
		if err := c.Table.Delete(c.ctx, c.key("a"), table.Cond{}); err != nil {
			c.Errorf("deleting what is not there: %v", err)
		}
	}},
	{"ItemUpTo400KiB", func(c *check) {
		it := c.item("large", "1")
		it.Data = bytes.Repeat([]byte{0xff}, table.MaxItem-2048)
		c.put(it)
		c.holds("large", &it)
		it = c.item("over", "1")
		it.Data = make([]byte, table.MaxItem)
		for what, err := range map[string]error{
			"Put":      c.Table.Put(c.ctx, it, table.Cond{}),
			"PutAll":   c.Table.PutAll(c.ctx, []table.Item{it}),
			"Transact": c.Table.Transact(c.ctx, []table.Op{{Put: &it}}),
		} {
			if !errors.Is(err, table.ErrTooLarge) {
				c.Errorf("%s: error %v, want %v", what, err, table.ErrTooLarge)
			}
		}
		c.holds("over", nil)
	}},
	{"KeysAreAnyText", func(c *check) {
		long := strings.Repeat("ä", table.MaxSK/2)
		for _, sk := range []string{"a", "A", " a", "a ", "ü", "u\u0308", "世界", "🎉", "a#b/c?d=e", "'\"\\", "%", "_", long} {
			it := c.item(sk, "1")
			c.put(it)
			c.holds(sk, &it)
		}
		got, _, err := c.Table.Query(c.ctx, table.Range{PK: c.pk})
		if err != nil || len(got) != 13 {
			c.Errorf("%d items, error %v, want 13", len(got), err)
		}
	}},
	{"KeysThatAreNone", func(c *check) {
		for _, k := range []table.Key{
			{SK: "a"}, {PK: c.pk}, {PK: c.pk, SK: strings.Repeat("s", table.MaxSK+1)}, {PK: strings.Repeat("p", table.MaxPK+1), SK: "a"},
		} {
			if err := c.Table.Put(c.ctx, table.Item{Key: k}, table.Cond{}); err == nil {
				c.Errorf("put with a key of %d and %d bytes", len(k.PK), len(k.SK))
			}
			if err := c.Table.Delete(c.ctx, k, table.Cond{}); err == nil {
				c.Errorf("delete with a key of %d and %d bytes", len(k.PK), len(k.SK))
			}
			if _, err := c.Table.Get(c.ctx, k); err == nil {
				c.Errorf("get with a key of %d and %d bytes", len(k.PK), len(k.SK))
			}
		}
	}},
	{"KeysUpToTheLimits", func(c *check) {
		// Of two partitions that differ at the end only.
		random := make([]byte, table.MaxSK/2)
		if _, err := rand.Read(random); err != nil {
			c.Fatal(err)
		}
		sk := hex.EncodeToString(random)
		for _, end := range []string{"x", "y"} {
			k := table.Key{PK: strings.Repeat(sk, 2)[len(c.pk)+1:] + c.pk + end, SK: sk}
			it := table.Item{Key: k, Fence: end, Data: []byte("x"), Due: table.Due{Shard: k.PK, At: c.now}}
			c.put(it)
			got, err := c.Table.Get(c.ctx, k)
			if err != nil || !same(got[k], it) {
				c.Errorf("%d bytes of keys hold %v, error %v, want %v", len(k.PK)+len(sk), got[k], err, it)
			}
			found, _, err := c.Table.Query(c.ctx, table.Range{PK: k.PK})
			if err != nil || len(found) != 1 || found[0].Fence != end {
				c.Errorf("the partition has %v, error %v, want one item", found, err)
			}
		}
		over := c.dueItem("a", strings.Repeat("s", table.MaxPK), c.now)
		if err := c.Table.Put(c.ctx, over, table.Cond{}); !errors.Is(err, table.ErrInvalid) {
			c.Errorf("put with a shard of %d bytes: %v", len(over.Due.Shard), err)
		}
	}},
	{"GetOfNone", func(c *check) {
		got, err := c.Table.Get(c.ctx)
		if err != nil || len(got) != 0 {
			c.Errorf("%v, error %v", got, err)
		}
	}},
	{"GetOfMany", func(c *check) {
		var items []table.Item
		keys := []table.Key{c.key("missing")}
		for _, sk := range numbered("i%03d", 230) {
			it := c.item(sk, "1")
			items, keys = append(items, it), append(keys, it.Key)
		}
		if err := c.Table.PutAll(c.ctx, items); err != nil {
			c.Fatal(err)
		}
		// Asking for a key twice is no error.
		got, err := c.Table.Get(c.ctx, append(keys, keys[5])...)
		if err != nil || len(got) != len(items) {
			c.Fatalf("%d items, error %v, want %d", len(got), err, len(items))
		}
		for _, it := range items {
			if !same(got[it.Key], it) {
				c.Errorf("%s came back as %v", it.SK, got[it.Key])
			}
		}
	}},
	{"GetOfMoreThanAResponseHolds", func(c *check) {
		// DynamoDB answers with at most 16 MiB at a time.
		var keys []table.Key
		for _, sk := range numbered("i%03d", 50) {
			it := c.item(sk, "1")
			it.Data = bytes.Repeat([]byte(sk), (390<<10)/len(sk))
			c.put(it)
			keys = append(keys, it.Key)
		}
		got, err := c.Table.Get(c.ctx, keys...)
		if err != nil || len(got) != len(keys) {
			c.Fatalf("%d items, error %v, want %d", len(got), err, len(keys))
		}
	}},
}
