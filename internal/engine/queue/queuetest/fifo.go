package queuetest

import (
	"slices"
	"strings"
	"time"

	"fedpost/internal/engine/queue"
)

// odd are keys that SQS would refuse as they are.
var odd = []string{
	"plain", "PLAIN", "plain ", "with space", "ünïcode 🎉", "a\nb", "nul\x00", "not utf-8 \xff", "\"'&<>{}",
	strings.Repeat("k", 500), strings.Repeat("k", 499) + "l", strings.Repeat("k", 128), "https://example.org/users/ä?x=1#main-key",
}

var fifoCases = []testCase{
	{"FIFOOrderWithinAGroup", func(c *check) {
		want := numbered("m%02d", 15)
		for _, b := range want {
			c.send(c.FIFO, ordered("g", b, b))
		}
		var got []queue.Received
		for range want {
			r := c.receive(c.FIFO, 1)
			c.delete(c.FIFO, r...)
			got = append(got, r...)
		}
		c.bodies(got, want...)
		for i, r := range got {
			if len(r.Sequence) != 20 || strings.Trim(r.Sequence, "0123456789") != "" {
				c.Fatalf("sequence %q is not 20 digits", r.Sequence)
			}
			if i > 0 && r.Sequence <= got[i-1].Sequence {
				c.Errorf("sequence %s of %s does not follow %s", r.Sequence, r.Body, got[i-1].Sequence)
			}
			if r.OrderingKey == "" || r.OrderingKey != got[0].OrderingKey {
				c.Errorf("ordering key %q of %s, want that of its group", r.OrderingKey, r.Body)
			}
		}
	}},
	{"FIFOOneReceiveGivesAGroupInOrder", func(c *check) {
		want := numbered("m%d", 5)
		for _, b := range want {
			c.send(c.FIFO, ordered("g", b, b))
		}
		got, err := c.FIFO.Receive(c.ctx, queue.ReceiveOptions{Max: 10, Wait: c.Wait})
		if err != nil || len(got) == 0 {
			c.Fatalf("received %d, error %v", len(got), err)
		}
		c.bodies(got, want[:len(got)]...)
	}},
	{"FIFOGroupIsHeldWhileInFlight", func(c *check) {
		c.send(c.FIFO, ordered("g", "1", "g1"), ordered("g", "2", "g2"), ordered("g", "3", "g3"))
		got := c.receive(c.FIFO, 1)
		c.bodies(got, "g1")
		c.none(c.FIFO, "a message of its group is in flight")
		c.send(c.FIFO, ordered("g", "4", "g4"))
		c.none(c.FIFO, "a message of its group is in flight")
		c.delete(c.FIFO, got...)
		c.bodies(c.receive(c.FIFO, 1), "g2")
	}},
	{"FIFOGroupIsHeldByTheLastOfAReceive", func(c *check) {
		c.send(c.FIFO, ordered("g", "1", "g1"), ordered("g", "2", "g2"), ordered("g", "3", "g3"))
		got, err := c.FIFO.Receive(c.ctx, queue.ReceiveOptions{Max: 2, Wait: c.Wait, Visibility: time.Minute})
		if err != nil || len(got) == 0 {
			c.Fatalf("received %d, error %v", len(got), err)
		}
		if len(got) < 2 {
			c.Skip("the receive gave one message of the group only, which is allowed")
		}
		c.delete(c.FIFO, got[0])
		c.none(c.FIFO, "g2 is in flight")
		c.delete(c.FIFO, got[1])
		c.bodies(c.receive(c.FIFO, 1), "g3")
	}},
	{"FIFOMessageIsHeldByThoseBeforeItOnly", func(c *check) {
		c.send(c.FIFO, ordered("g", "1", "g1"), ordered("g", "2", "g2"), ordered("g", "3", "g3"))
		got, err := c.FIFO.Receive(c.ctx, queue.ReceiveOptions{Max: 3, Wait: c.Wait, Visibility: time.Second})
		if err != nil || len(got) == 0 {
			c.Fatalf("received %d, error %v", len(got), err)
		}
		if len(got) < 3 {
			c.Skip("the receive gave some messages of the group only, which is allowed")
		}
		c.hide(c.FIFO, time.Minute, got[1])
		c.wait(2 * time.Second)
		c.bodies(c.receive(c.FIFO, 1), "g1")
		c.none(c.FIFO, "g1 and g2 are in flight, and g3 is behind them")
	}},
	{"FIFOOtherGroupsGoOn", func(c *check) {
		c.send(c.FIFO, ordered("a", "1", "a1"), ordered("a", "2", "a2"), ordered("b", "1", "b1"), ordered("c", "1", "c1"))
		first := c.receive(c.FIFO, 1)
		c.bodies(first, "a1")
		c.sameBodies(c.receive(c.FIFO, 2), "b1", "c1")
		c.none(c.FIFO, "a message of every group is in flight")
	}},
	{"FIFOOrderHoldsWhenVisibilityEnds", func(c *check) {
		c.send(c.FIFO, ordered("g", "1", "g1"), ordered("g", "2", "g2"))
		c.bodies(c.receiveFor(c.FIFO, 1, 0), "g1")
		c.wait(c.Visibility + time.Second)
		again := c.receive(c.FIFO, 1)
		c.bodies(again, "g1")
		if again[0].ReceiveCount != 2 {
			c.Errorf("receive count %d, want 2", again[0].ReceiveCount)
		}
		c.delete(c.FIFO, again...)
		c.bodies(c.receive(c.FIFO, 1), "g2")
	}},
	{"FIFOOrderHoldsWhenAMessageIsHandedBack", func(c *check) {
		c.send(c.FIFO, ordered("g", "1", "g1"), ordered("g", "2", "g2"))
		got := c.receive(c.FIFO, 1)
		c.hide(c.FIFO, 2*time.Second, got...)
		c.none(c.FIFO, "g1 is still hidden, and g2 is behind it")
		c.wait(3 * time.Second)
		again := c.receive(c.FIFO, 1)
		c.bodies(again, "g1")
		c.delete(c.FIFO, again...)
		next := c.receive(c.FIFO, 1)
		c.bodies(next, "g2")
		c.show(c.FIFO, next...)
		c.bodies(c.receive(c.FIFO, 1), "g2")
	}},
	{"FIFOGroupsAreAnyStrings", func(c *check) {
		for i, g := range odd {
			c.send(c.FIFO, ordered(g, "k1", numbered("%02d-1", len(odd))[i]), ordered(g, "k2", numbered("%02d-2", len(odd))[i]))
		}
		groups := make(map[string]bool)
		for range odd {
			r := c.receive(c.FIFO, 1)[0]
			if !strings.HasSuffix(r.Body, "-1") {
				c.Fatalf("received %s while the first of its group is in flight", r.Body)
			}
			groups[r.OrderingKey] = true
		}
		if len(groups) != len(odd) {
			c.Errorf("%d groups came of %d ordering keys", len(groups), len(odd))
		}
		c.none(c.FIFO, "a message of every group is in flight")
	}},
	{"FIFODeduplicationKeysAreAnyStrings", func(c *check) {
		for range 2 {
			for i, k := range odd {
				c.send(c.FIFO, ordered("g", k, numbered("%02d", len(odd))[i]))
			}
		}
		var got []queue.Received
		for range odd {
			r := c.receive(c.FIFO, 1)
			c.delete(c.FIFO, r...)
			got = append(got, r...)
		}
		if want := numbered("%02d", len(odd)); !slices.Equal(bodies(got), want) {
			c.Errorf("received %q, want %q", bodies(got), want)
		}
		c.none(c.FIFO, "every key was sent twice, and counts once")
	}},
}
