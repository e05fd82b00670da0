package queuetest

import (
	"time"

	"fedpost/internal/engine/queue"
)

var dedupCases = []testCase{
	{"DuplicateIsDropped", func(c *check) {
		c.send(c.FIFO, ordered("g", "k", "first"), ordered("g", "k", "first"))
		got := c.receive(c.FIFO, 1)
		c.bodies(got, "first")
		c.send(c.FIFO, ordered("g", "k", "first"))
		c.delete(c.FIFO, got...)
		c.none(c.FIFO, "the others were duplicates")
	}},
	{"DuplicateWithAnotherBodyIsDropped", func(c *check) {
		c.send(c.FIFO, ordered("g", "k", "first"), ordered("g", "k", "second"))
		got := c.receive(c.FIFO, 1)
		c.bodies(got, "first")
		c.delete(c.FIFO, got...)
		c.none(c.FIFO, "the key is what counts")
	}},
	{"DuplicateOfADeletedMessageIsDropped", func(c *check) {
		c.send(c.FIFO, ordered("g", "k", "x"))
		c.delete(c.FIFO, c.receive(c.FIFO, 1)...)
		c.send(c.FIFO, ordered("g", "k", "x"))
		c.none(c.FIFO, "the key is remembered longer than the message")
	}},
	{"DuplicateInABatchIsDropped", func(c *check) {
		c.batch(c.FIFO, []queue.Message{ordered("g", "k", "x"), ordered("g", "k", "x"), ordered("g", "l", "y")})
		first := c.receive(c.FIFO, 1)
		c.bodies(first, "x")
		c.delete(c.FIFO, first...)
		second := c.receive(c.FIFO, 1)
		c.bodies(second, "y")
		c.delete(c.FIFO, second...)
		c.none(c.FIFO, "the other one was a duplicate")
	}},
	{"DeduplicationIsPerGroup", func(c *check) {
		c.send(c.FIFO, ordered("a", "k", "in a"), ordered("b", "k", "in b"))
		c.sameBodies(c.receive(c.FIFO, 2), "in a", "in b")
	}},
	{"DeduplicationDoesNotConfuseGroupAndKey", func(c *check) {
		c.send(c.FIFO, ordered("a", "bc", "a/bc"), ordered("ab", "c", "ab/c"))
		c.sameBodies(c.receive(c.FIFO, 2), "a/bc", "ab/c")
	}},
	{"DeduplicationEndsWithItsWindow", func(c *check) {
		c.send(c.FIFO, ordered("g", "k", "x"))
		c.delete(c.FIFO, c.receive(c.FIFO, 1)...)
		c.wait(queue.DedupWindow - 10*time.Second)
		c.send(c.FIFO, ordered("g", "k", "x"))
		c.none(c.FIFO, "the window is not over")
		c.wait(15 * time.Second)
		// The duplicate must not have extended the window.
		c.send(c.FIFO, ordered("g", "k", "x"))
		c.receive(c.FIFO, 1)
	}},
}
