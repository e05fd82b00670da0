package e2e

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/cost"

	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/fediverse"
)

// TestCostsOnTheEmbeddedEngine asserts the budget on what the calls of the ports
// would cost. On the AWS engine the budget is asserted on DynamoDB's own figures, and the
// estimate is compared with them.
func TestCostsOnTheEmbeddedEngine(t *testing.T) { costs(t, Embedded()) }

func TestCostsOnTheAWSEngine(t *testing.T) { costs(t, AWS()) }

// unscheduled leaves out of the count what depends on the clock: the minutely work, and outcomes
// that go to the journal because others of their invocation are slow. TestCostWithSlowAnswers of
// package deliver counts in virtual time what those cost with slow servers.
var unscheduled = Options{Settings: patient.Settings, Every: time.Hour, Flush: time.Hour}

func costs(t *testing.T, e Engine) {
	e.Require(t)
	t.Parallel()
	t.Run("Accepting", func(t *testing.T) { accepting(t, Open(t, e, unscheduled)) })
	// What accepting costs with FIFO queues is counted in virtual time, by
	// TestCostOfACallByTypeOfQueue of package enqueue.
	for _, typ := range []queue.Type{queue.Standard, queue.FIFO} {
		o := unscheduled
		o.QueueType = typ
		t.Run("AThousandRecipientsThatAccept/"+string(typ), func(t *testing.T) { thousand(t, Open(t, e, o)) })
		t.Run("OneRecipient/"+string(typ), func(t *testing.T) { single(t, Open(t, e, o)) })
	}
}

// use measures what f and everything that follows from it uses.
func (w *World) use(f func()) (used, estimated cost.Snapshot) {
	w.t.Helper()
	w.quiet()
	u, e := w.Used(), w.Estimated()
	f()
	w.quiet()
	used = w.Used().Since(u)
	delete(used, cost.Op{Service: "SQS", Operation: "GetQueueAttributes"}) // only quiet asks for them
	return used, w.Estimated().Since(e)
}

// quiet waits until nothing is on the queues.
func (w *World) quiet() {
	w.t.Helper()
	Await(w.t, w.Patience(time.Minute), "empty queues", func() (bool, string) {
		d := w.Depths()
		for _, n := range queue.Names {
			if d[n] != (queue.Depth{}) {
				return false, fmt.Sprint(d)
			}
		}
		return true, ""
	})
}

// thousand delivers one activity to 1,000 recipients on 200 servers. A starved machine hands
// deliveries back to their queue, which costs: the budget is missed if it is missed three times.
func thousand(t *testing.T, w *World) {
	const n, tries = 1000, 3
	w.warm()
	for try := 1; ; try++ {
		sink := NewSink(t, 200, n, 0)
		used, estimated := w.use(func() {
			w.Accept(submission(note(fmt.Sprint("costs-", try)), costKey, sink.URLs(0, n)...))
			// Asking the API would cost, too.
			Await(t, w.Patience(time.Minute), "deliveries", func() (bool, string) {
				return sink.Total() == n, fmt.Sprint(sink.Total())
			})
		})
		t.Logf("1 activity to %d recipients: %s\n%s", n, cost.PriceOn(w.Type, used, n), used.Per(n, "recipient"))
		compare(t, w, used, estimated)
		missed := modelled(used, estimated, n, cost.Load{Recipients: n, Memory: 1769})
		sqs := used.Service("SQS").Requests
		if w.Engine.Remote {
			// Polls that bring nothing are made all the time, and do not belong to a delivery.
			sqs += estimated[receive].Requests - used[receive].Requests
		}
		if per := float64(sqs) / n; per > 0.08 {
			missed = append(missed, fmt.Sprintf("%.3f requests to SQS per recipient, at most 0.08", per))
		}
		if per := used.Service("DynamoDB").WriteUnits / n; per > 0.1 {
			missed = append(missed, fmt.Sprintf("%.3f write units per recipient, at most 0.1", per))
		}
		if len(missed) == 0 {
			return
		}
		if try == tries {
			t.Fatalf("missed %d times: %s", tries, strings.Join(missed, "; "))
		}
		t.Logf("missed, and measured again: %s", strings.Join(missed, "; "))
	}
}

// modelled compares the model of costs with what n recipients used, except a write of counts now
// and then, and returns where it differs. Reads of hosts are at most those of the model, as a
// process knows hosts for some seconds.
func modelled(used, estimated cost.Snapshot, n int, l cost.Load) (off []string) {
	each := float64(n / l.Recipients)
	model := l.PerActivity()
	sqs, writes := float64(estimated.Service("SQS").PayloadUnits), used.Service("DynamoDB").WriteUnits
	if math.Abs(writes-each*model.Writes) > max(3, each*model.Writes/20) {
		off = append(off, fmt.Sprintf("%.1f write units for %d recipients, the model of costs has %.1f", writes, n, each*model.Writes))
	}
	// This process polls all the time, so messages that are sent one batch after another may come
	// in parts: some more receives than in the model. A busy machine receives and deletes up to ten
	// messages in one request.
	sends := float64(used[send].Requests + used[sendBatch].Requests)
	most, least := each*model.SQS+max(10, each*model.SQS/10), sends+(each*model.SQS-sends)/10
	if sqs > most || sqs < least {
		off = append(off, fmt.Sprintf("%.1f requests to SQS for %d recipients, the model of costs has %.1f: want %.1f to %.1f", sqs, n, each*model.SQS, least, most))
	}
	if reads := estimated.Service("DynamoDB").ReadUnits; reads > 1.1*each*model.Reads+3 {
		off = append(off, fmt.Sprintf("%.1f read units for %d recipients, the model of costs has %.1f", reads, n, each*model.Reads))
	}
	return off
}

// warm first delivers something to the server that it returns: keys and servers are looked up once
// in a while, and then remembered. The key is one that signs fast: no cost depends on its type.
func (w *World) warm() *Remote {
	w.t.Helper()
	w.AddKey(costKey, PrivatePEM(w.t, costKey))
	r := w.Remote()
	w.Ends(w.Accept(submission(note("before"), costKey, r.URL("/inbox"))).ID, map[string]int{"delivered": 1})
	return r
}

const costKey = fediverse.Ed25519KeyID

var (
	receive   = cost.Op{Service: "SQS", Operation: "ReceiveMessage"}
	send      = cost.Op{Service: "SQS", Operation: "SendMessage"}
	sendBatch = cost.Op{Service: "SQS", Operation: "SendMessageBatch"}
)

// compare compares the estimate with what DynamoDB reports.
func compare(t *testing.T, w *World, used, estimated cost.Snapshot) {
	t.Helper()
	if w.ports.Metered == nil {
		return
	}
	u, e := used.Service("DynamoDB"), estimated.Service("DynamoDB")
	t.Logf("DynamoDB says %.1f write units and %.1f read units, the estimate %.1f and %.1f", u.WriteUnits, u.ReadUnits, e.WriteUnits, e.ReadUnits)
	if math.Abs(u.WriteUnits-e.WriteUnits) > max(2, u.WriteUnits/10) {
		t.Errorf("the estimate of write units is off: %.1f, used were %.1f", e.WriteUnits, u.WriteUnits)
	}
}

// accepting enqueues and delivers nothing: the activities wait on the queue.
func accepting(t *testing.T, w *World) {
	const calls = 20
	r := w.warm()
	w.quiet()
	for _, c := range []struct {
		name  string
		key   bool
		units float64
	}{
		{"without a key", false, 3},
		{"with a deduplication key", true, 5},
	} {
		before, was, since := w.Used(), w.Estimated(), time.Now()
		for n := range calls {
			s := submission(note(fmt.Sprintf("accepted-%d", n)), costKey, r.URL("/inbox"))
			s.Delay = client.Duration(10 * time.Minute)
			if c.key {
				s.DeduplicationKey = fmt.Sprintf("key-%d", n)
			}
			w.Accept(s)
		}
		used, estimated := w.Used().Since(before), w.Estimated().Since(was)
		t.Logf("accepting %s: %s\n%s", c.name, cost.PriceOf(used, calls), used.Per(calls, "call"))
		if n := used[send].Requests; n != calls {
			t.Errorf("%s: %d messages sent for %d calls", c.name, n, calls)
		}
		// A process writes its counts down every 5 s, however many calls there are.
		counts := 1 + time.Since(since).Seconds()/5
		if units := (used.Service("DynamoDB").WriteUnits - counts) / calls; units > c.units {
			t.Errorf("%s: %.2f write units per call, at most %.0f", c.name, units, c.units)
		}
		compare(t, w, used, estimated)
	}
}

// single delivers activities to one recipient each, which is the most expensive, and once more in
// order.
func single(t *testing.T, w *World) {
	const n = 50
	r := w.warm()
	for _, ordering := range []string{"", "zoe"} {
		had := len(r.Accepted())
		used, estimated := w.use(func() {
			for i := range n {
				s := submission(note(fmt.Sprintf("one%s-%d", ordering, i)), costKey, r.URL("/inbox"))
				if s.OrderingKey = ordering; ordering != "" {
					s.DeduplicationKey = fmt.Sprint(i)
				}
				w.Accept(s)
			}
			Await(t, w.Patience(time.Minute), "deliveries", func() (bool, string) {
				got := len(r.Accepted()) - had
				return got == n, fmt.Sprint(got)
			})
		})
		t.Logf("%d activities to 1 recipient each, ordered by %q: %s\n%s", n, ordering, cost.PriceOn(w.Type, used, n), used.Per(n, "recipient"))
		compare(t, w, used, estimated)
		if ordering == "" {
			for _, off := range modelled(used, estimated, n, cost.Load{Recipients: 1, Memory: 1769}) {
				t.Error(off)
			}
		}
	}
}
