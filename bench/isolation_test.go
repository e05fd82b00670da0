package bench

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/fediverse"
	"fedpost/internal/testkit/long"
)

var hosts = flag.Int("hosts", 200, "how many healthy hosts TestIsolation delivers to, beside a tenth as many that hang")

// shortened is by how much times are shorter than in production: a request times
// out after 1 s instead of 15 s, so the first minute of learning is 4 s.
const shortened = 15

// limit is how much longer deliveries to healthy hosts may take because of
// others that hang.
const limit = 1.2

// TestIsolation delivers activities to hosts of which some hang, and to as many working hosts
// without those. Both alternate on one machine, so that its other work slows down both alike.
func TestIsolation(t *testing.T) {
	long.Only(t, "delivers to hundreds of hosts, again and again")
	const rounds = 20
	healthy, hanging := *hosts, *hosts/10
	// Several tries separate the influence of hanging hosts from that of other work on this
	// machine.
	for try := 1; ; try++ {
		ratio := isolation(t, healthy, hanging, rounds)
		if ratio <= limit {
			return
		}
		if try == 3 {
			t.Fatalf("deliveries to healthy hosts take %.2f times as long with hosts that hang, at most %.1f", ratio, limit)
		}
		t.Logf("%.2f times as long: measured again", ratio)
	}
}

func isolation(t *testing.T, healthy, hanging, rounds int) float64 {
	without, with := newSide(t, healthy, 0), newSide(t, healthy, hanging)
	begin, learning := time.Now(), time.Minute/shortened
	first := []time.Duration{with.deliver()}
	for time.Since(begin) < learning {
		without.deliver()
		first = append(first, with.deliver())
	}
	var a, b []time.Duration
	for range rounds / 2 {
		a, b = append(a, without.deliver()), append(b, with.deliver())
		b, a = append(b, with.deliver()), append(a, without.deliver())
	}
	with.spared(hanging)
	ratio := float64(sum(b)) / float64(sum(a))
	t.Logf("%d healthy hosts, %d that hang; time for an activity to reach all healthy ones:", healthy, hanging)
	t.Logf("  while learning (the first %s, a minute in production): %s at worst", learning, slices.Max(first).Round(time.Millisecond))
	t.Logf("  without hosts that hang: %s on average, %s at worst", average(a), slices.Max(a).Round(time.Millisecond))
	t.Logf("  with hosts that hang:    %s on average, %s at worst: %.2f times as long", average(b), slices.Max(b).Round(time.Millisecond), ratio)
	return ratio
}

func sum(ds []time.Duration) (sum time.Duration) {
	for _, d := range ds {
		sum += d
	}
	return sum
}

func average(ds []time.Duration) time.Duration {
	return (sum(ds) / time.Duration(len(ds))).Round(time.Millisecond)
}

// side is a fedpost of its own and the hosts that it delivers to.
type side struct {
	t       *testing.T
	world   *e2e.World
	sink    *e2e.Sink
	hosts   int
	inboxes []string
	sent    int
	last    string // id
}

func newSide(t *testing.T, healthy, hanging int) *side {
	w := e2e.Open(t, e2e.Embedded(), e2e.Options{
		Settings: map[string]string{
			"DELIVERY_TIMEOUT": "1s", "RETRY_FIRST_WAIT": "333ms", "RETRY_FACTOR": "2",
			"CHECK_FIRST": "20s", "CHECK_STEP": "40s", "RELEASE_EVERY": "4s",
		},
		Every: time.Minute / shortened,
	})
	w.AddKey(fediverse.Ed25519KeyID, e2e.PrivatePEM(t, fediverse.Ed25519KeyID))
	s := &side{t: t, world: w, sink: e2e.NewSink(t, healthy, healthy, 50*time.Millisecond), hosts: healthy}
	// The hanging hosts are spread among the others.
	bad := e2e.Hanging(t, hanging)
	for n, inbox := range s.sink.URLs(0, healthy) {
		if len(bad) > 0 && n%(healthy/hanging) == 0 {
			s.inboxes, bad = append(s.inboxes, bad[0]), bad[1:]
		}
		s.inboxes = append(s.inboxes, inbox)
	}
	return s
}

// deliver sends an activity to all inboxes and returns how long it takes until
// all healthy hosts have it.
func (s *side) deliver() time.Duration {
	s.t.Helper()
	s.sent++
	body := fmt.Sprintf(`{"type":"Create","id":"https://mastodon.example/activities/%d","actor":"https://mastodon.example/users/Zoe","object":{"type":"Note"}}`, s.sent)
	begin := time.Now()
	s.last = s.world.Accept(client.Submission{Activity: json.RawMessage(body), KeyID: fediverse.Ed25519KeyID, Recipients: client.To(s.inboxes...)}).ID
	e2e.Await(s.t, time.Minute, "healthy hosts", func() (bool, string) {
		got := s.sink.Total()
		return got >= s.sent*s.hosts, fmt.Sprintf("%d of %d", got, s.sent*s.hosts)
	})
	return time.Since(begin)
}

// spared checks that the circuits of the hanging hosts are open: deliveries to these hosts
// wait in the parking lot, and no worker waits for the hosts.
func (s *side) spared(hanging int) {
	s.t.Helper()
	s.world.Ends(s.last, map[string]int{"delivered": s.hosts, "parked": hanging})
}
