package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/fediverse"
	"fedpost/internal/testkit/long"
)

// heavy are scenarios that keep the machine busy. They run one by one, so that
// they do not slow down those about time.
var heavy = []scenario{
	{"TheHighestNumberOfRecipients", patient, many, false},
	{"UrgentOnesPassAFlood", patient, priorities, false},
	{"UrgentOnesPassAFloodOnFIFOQueues", Options{Settings: patient.Settings, QueueType: queue.FIFO}, priorities, true},
}

// patient is for deliveries that must not time out because this machine is slow.
var patient = Options{Settings: map[string]string{"DELIVERY_TIMEOUT": "10s"}}

func TestLoadOnTheEmbeddedEngine(t *testing.T) { runAlone(t, Embedded()) }

func TestLoadOnPostgreSQL(t *testing.T) { runAlone(t, Postgres()) }

func TestLoadOnTheAWSEngine(t *testing.T) { runAlone(t, AWS()) }

func runAlone(t *testing.T, e Engine) {
	e.Require(t)
	long.Only(t, "50,000 recipients, and two floods")
	for _, s := range heavy {
		t.Run(s.name, func(t *testing.T) { s.run(t, Open(t, e, s.options)) })
	}
}

// many sends one activity to as many inboxes as one may have. It is signed with
// an Ed25519 key: RSA would take a processor half a minute.
func many(t *testing.T, w *World) {
	n := 50_000
	if w.Engine.Remote {
		// The stand-ins for SQS take 10 ms and more for a request.
		n = 10_000
	}
	w.AddKey(fediverse.Ed25519KeyID, PrivatePEM(t, fediverse.Ed25519KeyID))
	sink := NewSink(t, 100, n, 0)
	begin := time.Now()
	s := submission(note("many"), fediverse.Ed25519KeyID, sink.URLs(0, n)...)
	s.DeduplicationKey = "many"
	a := w.Accept(s)
	answered := time.Since(begin)
	w.EndsWithin(5*time.Minute, a.ID, map[string]int{"delivered": n})
	took := time.Since(begin)
	wrong := sink.NotOnce()
	if len(wrong) > 0 {
		some := slices.Sorted(maps.Keys(wrong))[:min(5, len(wrong))]
		t.Errorf("%d inboxes did not get it once, such as %v", len(wrong), some)
	}
	t.Logf("%d recipients accepted in %s, delivered in %s (%.0f a second)",
		n, answered.Round(time.Millisecond), took.Round(time.Millisecond), float64(n)/took.Seconds())
}

// priorities floods the low queue and then sends a few urgent activities: these
// are done while the flood goes on.
func priorities(t *testing.T, w *World) {
	flood, servers := 10_000, 10
	if w.Engine.Remote {
		flood, servers = 3_000, 3
	}
	const urgent, each = 10, 1000
	w.AddKey(fediverse.Ed25519KeyID, PrivatePEM(t, fediverse.Ed25519KeyID))
	// Slow enough for the flood to take some seconds, whatever this machine can.
	low, high := NewSink(t, servers, flood, 500*time.Millisecond), w.Remote()
	var lows, highs []client.Accepted
	for from := 0; from < flood; from += each {
		s := submission(note(fmt.Sprintf("low-%d", from)), fediverse.Ed25519KeyID, low.URLs(from, from+each)...)
		s.Priority = "low"
		lows = append(lows, w.Accept(s))
	}
	begin := time.Now()
	for n := range urgent {
		s := submission(note(fmt.Sprintf("high-%d", n)), fediverse.Ed25519KeyID, high.URL("/inbox"))
		s.Priority = "high"
		highs = append(highs, w.Accept(s))
	}
	Await(t, w.Patience(time.Minute), "the urgent ones", func() (bool, string) {
		n := len(high.Accepted())
		return n == urgent, fmt.Sprintf("%d POSTs", n)
	})
	took, done := time.Since(begin), low.Total()
	t.Logf("%d urgent ones were there after %s, when %d of the flood of %d were", urgent, took.Round(time.Millisecond), done, flood)
	if done >= flood*9/10 {
		t.Errorf("%d of %d in the flood went before", done, flood)
	}
	for _, a := range append(highs, lows...) {
		w.EndsWithin(2*time.Minute, a.ID, map[string]int{"delivered": a.Recipients})
	}
	t.Logf("the flood was done after %s", time.Since(begin).Round(time.Millisecond))
}
