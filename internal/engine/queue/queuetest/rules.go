package queuetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"fedpost/internal/engine/queue"
)

// exact holds bodies that a careless engine would change.
var exact = map[string]string{
	"html":       `{"content":"<p>a &amp; b &lt; \"c\"</p>", "x" : 1.0 }`,
	"unicode":    "Grüße, мир, 世界, 🎉👩‍👩‍👧, e\u0301 is not \u00e9",
	"separators": "line\u2028para\u2029next\u0085end",
	"white":      " \t lead\r\n\r trail \n",
	"escapes":    `\u003c \\ \n %41 + "`,
	"edges":      "\ud7ff\ue000\ufffd\U00010000\U0010FFFF",
	"delete":     "\x7f\u0080\u009f",
}

func (c *check) refused(q queue.Queue, what string, m queue.Message, want error) {
	c.Helper()
	if err := q.Send(c.ctx, m); !errors.Is(err, want) || !queue.NotSent(err) {
		c.Errorf("%s: error %v, want %v", what, err, want)
	}
}

var ruleCases = []testCase{
	{"BodyIsKeptToTheByte", func(c *check) {
		for name, body := range exact {
			c.send(c.Standard, text(body))
			got := c.receive(c.Standard, 1)
			if got[0].Body != body {
				c.Errorf("%s: received %q, sent %q", name, got[0].Body, body)
			}
			c.delete(c.Standard, got...)
		}
	}},
	{"BodyOfExactlyAMebibyte", func(c *check) {
		body := strings.Repeat("é", queue.MaxBytes/2)
		c.send(c.Standard, text(body))
		if got := c.receive(c.Standard, 1)[0].Body; got != body {
			c.Errorf("received %d bytes that are not those sent", len(got))
		}
	}},
	{"MessageOverAMebibyteIsRefused", func(c *check) {
		c.refused(c.Standard, "body", text(tooLong), queue.ErrTooLarge)
		c.refused(c.FIFO, "FIFO body", ordered("g", "k", tooLong), queue.ErrTooLarge)
		c.refused(c.Standard, "body and attributes", queue.Message{
			Body: tooLong[:queue.MaxBytes-10], Attributes: map[string]string{"name": "value"},
		}, queue.ErrTooLarge)
		c.none(c.Standard, "all were refused")
		c.none(c.FIFO, "all were refused")
	}},
	{"CharactersThatSQSRefuses", func(c *check) {
		for _, bad := range []string{"\x00", "a\x01", "\x08", "\x0b", "\x1f", "\ufffe", "\uffff", "\xff", "\xed\xa0\x80", ""} {
			c.refused(c.Standard, fmt.Sprintf("body %q", bad), text(bad), queue.ErrInvalid)
			c.refused(c.Standard, fmt.Sprintf("attribute %q", bad),
				queue.Message{Body: "x", Attributes: map[string]string{"a": bad}}, queue.ErrInvalid)
		}
		c.none(c.Standard, "all were refused")
	}},
	{"AttributeRules", func(c *check) {
		for _, name := range []string{"", "with space", "AWS.x", "amazon.y", ".a", "a.", "a..b", "é", strings.Repeat("a", 257)} {
			c.refused(c.Standard, fmt.Sprintf("name %.20q", name),
				queue.Message{Body: "x", Attributes: map[string]string{name: "v"}}, queue.ErrInvalid)
		}
		many := make(map[string]string)
		for _, name := range numbered("a%d", queue.MaxAttributes) {
			many[name] = "v"
		}
		c.send(c.Standard, queue.Message{Body: "ten", Attributes: many})
		if got := c.receive(c.Standard, 1)[0].Attributes; len(got) != queue.MaxAttributes {
			c.Errorf("%d attributes came back", len(got))
		}
		many["b"] = "v"
		c.refused(c.Standard, "eleven attributes", queue.Message{Body: "x", Attributes: many}, queue.ErrInvalid)
	}},
	{"DelayRules", func(c *check) {
		c.refused(c.Standard, "over 15 minutes", queue.Message{Body: "x", Delay: queue.MaxDelay + time.Second}, queue.ErrInvalid)
		c.refused(c.Standard, "negative", queue.Message{Body: "x", Delay: -time.Second}, queue.ErrInvalid)
		m := ordered("g", "k", "x")
		m.Delay = time.Second
		c.refused(c.FIFO, "on FIFO", m, queue.ErrInvalid)
		c.send(c.Standard, queue.Message{Body: "x", Delay: queue.MaxDelay})
	}},
	{"KeyRules", func(c *check) {
		c.refused(c.FIFO, "no ordering key", queue.Message{Body: "x", DeduplicationKey: "k"}, queue.ErrInvalid)
		c.refused(c.FIFO, "no deduplication key", queue.Message{Body: "x", OrderingKey: "g"}, queue.ErrInvalid)
		c.refused(c.Standard, "deduplication key", queue.Message{Body: "x", DeduplicationKey: "k"}, queue.ErrInvalid)
		c.send(c.Standard, queue.Message{Body: "x", OrderingKey: "the tenant of a fair queue"})
		c.receive(c.Standard, 1)
	}},
	{"ReceiveRules", func(c *check) {
		for _, n := range []int{-1, 0, queue.MaxBatch + 1} {
			if _, err := c.Standard.Receive(c.ctx, queue.ReceiveOptions{Max: n}); err == nil {
				c.Errorf("received with Max %d", n)
			}
		}
		if _, err := c.Standard.Receive(c.ctx, queue.ReceiveOptions{Max: 1, Wait: 21 * time.Second}); err == nil {
			c.Error("received with a wait over 20 s")
		}
	}},
	{"ReceiveGivesAtMostMax", func(c *check) {
		for _, b := range numbered("%d", 12) {
			c.send(c.Standard, text(b))
		}
		got, err := c.Standard.Receive(c.ctx, queue.ReceiveOptions{Max: 3, Wait: c.Wait})
		if err != nil || len(got) == 0 || len(got) > 3 {
			c.Errorf("received %d, error %v, want 1 to 3", len(got), err)
		}
	}},
}
