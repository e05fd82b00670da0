package queuetest

import (
	"maps"

	"fedpost/internal/engine/queue"
)

// exhaust receives the next message as often as MaxReceives allows.
func (c *check) exhaust(q queue.Queue, body string) queue.Received {
	c.Helper()
	var last queue.Received
	for i := range c.MaxReceives {
		got := c.receive(q, 1)
		c.bodies(got, body)
		if last = got[0]; last.ReceiveCount != i+1 {
			c.Fatalf("receive count %d, want %d", last.ReceiveCount, i+1)
		}
		c.show(q, last)
	}
	return last
}

var deadLetterCases = []testCase{
	{"MessageReceivedTooOftenIsADeadLetter", func(c *check) {
		attributes := map[string]string{"a": "b"}
		c.send(c.Standard, queue.Message{Body: "poison", Attributes: attributes})
		source := c.exhaust(c.Standard, "poison")
		c.none(c.Dead, "it moves at the next receive, not before")
		c.none(c.Standard, "the message was received too often")
		dead := c.receive(c.Dead, 1)
		c.bodies(dead, "poison")
		if !maps.Equal(dead[0].Attributes, attributes) {
			c.Errorf("attributes %q, want %q", dead[0].Attributes, attributes)
		}
		if dead[0].ID != source.ID {
			c.Errorf("the dead letter's id is %s, it was %s", dead[0].ID, source.ID)
		}
		if !dead[0].SentAt.Equal(source.SentAt) {
			c.Errorf("the dead letter was sent at %s, the message at %s", dead[0].SentAt, source.SentAt)
		}
		c.delete(c.Dead, dead...)
		c.none(c.Dead, "it was deleted")
		c.none(c.Standard, "it moved")
	}},
	{"DeadLetterIsNotInTheWayOfOthers", func(c *check) {
		c.send(c.Standard, text("poison"))
		c.exhaust(c.Standard, "poison")
		c.send(c.Standard, text("good"))
		c.bodies(c.receive(c.Standard, 1), "good")
		c.none(c.Standard, "the other one was received too often")
		c.bodies(c.receive(c.Dead, 1), "poison")
	}},
	{"DeadLetterOfAFIFOQueueFreesItsGroup", func(c *check) {
		c.send(c.FIFO, ordered("g", "1", "poison"), ordered("g", "2", "next"))
		source := c.exhaust(c.FIFO, "poison")
		c.bodies(c.receive(c.FIFO, 1), "next")
		dead := c.receive(c.DeadOrdered, 1)
		c.bodies(dead, "poison")
		if dead[0].OrderingKey != source.OrderingKey {
			c.Errorf("the dead letter's ordering key is %q, it was %q", dead[0].OrderingKey, source.OrderingKey)
		}
	}},
	{"DeadLettersOfAGroupKeepTheirOrder", func(c *check) {
		c.send(c.FIFO, ordered("g", "1", "g1"), ordered("g", "2", "g2"), ordered("g", "3", "g3"))
		c.exhaust(c.FIFO, "g1")
		c.exhaust(c.FIFO, "g2")
		c.bodies(c.receive(c.FIFO, 1), "g3")
		for _, want := range []string{"g1", "g2"} {
			got := c.receive(c.DeadOrdered, 1)
			c.bodies(got, want)
			c.delete(c.DeadOrdered, got...)
		}
	}},
	{"DeadLettersAreNeverTooOld", func(c *check) {
		c.send(c.Dead, text("x"))
		for range c.MaxReceives + 2 {
			c.show(c.Dead, c.receive(c.Dead, 1)...)
		}
		c.bodies(c.receive(c.Dead, 1), "x")
	}},
}
