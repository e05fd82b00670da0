package verdict

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/property"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var target = Target{Inbox: "https://a.example/in", HostKey: host, InboxKey: inbox, SignedKey: signed}

const (
	host   = "host:a.example"
	inbox  = "inbox:https://a.example/in"
	signed = "inbox:https://a.example/in#key-1"
)

func in(d time.Duration) time.Time { return noon.Add(d) }

// healthy is a snapshot of a delivery, due for an hour, whose servers are well.
func healthy() Snapshot {
	h, i := circuit.State{Key: host, Phase: circuit.Healthy}, circuit.State{Key: inbox, Phase: circuit.Healthy}
	rules, policy := circuit.Default(), retry.ActivityPub()
	return Snapshot{
		Now: noon, Rules: &rules, Policy: &policy, Random: [2]float64{0.5, 0.5},
		Delivery: Delivery{Since: in(-time.Hour), Receives: 1},
		Servers:  Servers{Host: h, Inbox: i, By: h},
	}
}

// by lets a state decide.
func (s Snapshot) by(st circuit.State) Snapshot {
	s.Servers.By, s.Servers.Decision = st, st.Decision(s.Now)
	switch st.Key {
	case host:
		s.Servers.Host = st
	case inbox:
		s.Servers.Inbox = st
	}
	return s
}

func (s Snapshot) ordered() Snapshot { s.Delivery.Ordered = true; return s }

func (s Snapshot) onTrial() Snapshot { s.Delivery.Trial, s.Delivery.Generation = true, 1; return s }

func (s Snapshot) newer(v coalesce.Verdict) Snapshot { s.Found.Newer = v; return s }

func (s Snapshot) under(p retry.Policy) Snapshot { s.Policy = &p; return s }

var (
	refusing = circuit.State{
		Key: host, Phase: circuit.Unhealthy, Reason: outcome.ConnRefused, DownSince: in(-169 * time.Minute), Since: in(-time.Hour), CheckAt: in(5 * time.Minute),
	}
	halfOpen = circuit.State{Key: host, Phase: circuit.HalfOpen, Reason: outcome.Timeout, CheckAt: in(time.Minute)}
	fullBox  = circuit.State{Key: inbox, Phase: circuit.Unhealthy, Why: "answered 500", DownSince: in(-time.Hour), CheckAt: in(7 * time.Minute)}
	paused   = circuit.State{Key: host, Phase: circuit.Paused, Until: in(30 * time.Minute), Why: "answered 429"}
	blocked  = circuit.State{Key: host, Phase: circuit.Blocked, Why: "spam"}
	limited  = circuit.State{Key: host, Phase: circuit.Healthy, Rate: 60}
	answers  = circuit.State{Key: host, Phase: circuit.Unhealthy, Trials: 1, Why: "answered 500", DownSince: in(-time.Hour), CheckAt: in(5 * time.Minute)}
)

// says is a verdict in one line.
func says(v Verdict) string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.Sub(noon).String()
	}
	switch v := v.(type) {
	case Again:
		return fmt.Sprintf("again in %s for %s: %s", at(v.Until()), v.For(), v.Why())
	case Park:
		held := ""
		if v.Held {
			held = " held, due " + at(v.Due)
			if v.Alone {
				held = " held alone, due " + at(v.Due)
			}
		}
		return fmt.Sprintf("park under %s%s, until %s for %s: %s", v.Under, held, at(v.Until()), v.For(), v.Why())
	}
	return fmt.Sprintf("%T %+v", v, v)
}

func TestWhyIsThisDeliveryParked(t *testing.T) {
	broken := func(s Snapshot) Snapshot { s.Delivery.Bodiless = true; return s }
	old := func(s Snapshot) Snapshot { s.Delivery.Since = in(-8 * 24 * time.Hour); return s }
	behind := healthy().ordered()
	behind.Found.Behind = HostGroup
	left := healthy().ordered().by(fullBox)
	left.Found.Behind = HostGroup
	line := healthy().ordered()
	line.Found.Behind = InboxGroup
	slow := healthy().by(limited)
	slow.Found.NotBefore = in(90 * time.Second)
	slot := slow.ordered()
	slot.Found.Slot, slot.Found.Due = in(2*time.Minute), in(2*time.Minute)
	works := answers
	works.Took = "another inbox"
	for _, c := range []struct {
		name string
		s    Snapshot
		want string
	}{
		{"all is well", healthy(), "verdict.Attempt {}"},
		{"its host refuses connections", healthy().by(refusing), "park under host:a.example, until 5m0s for host:a.example: connection refused since 09:11 UTC"},
		{"its host asked for a pause", healthy().by(paused), "park under host:a.example, until 30m0s for host:a.example: answered 429, until 12:30 UTC"},
		{"its inbox fails and its host does not", healthy().by(fullBox), "park under " + inbox + ", until 7m0s for " + inbox + ": answered 500 since 11:00 UTC"},
		{
			"the same, in order: its group looks for it under the host", healthy().ordered().by(fullBox),
			"park under host:a.example held alone, due 8m0s, until 8m0s for " + inbox + ": answered 500 since 11:00 UTC",
		},
		{
			"its host answers probes, and its inbox is down: not in the way of other inboxes", healthy().by(fullBox).by(answers),
			"park under " + inbox + ", until 5m0s for host:a.example: answered 500 since 11:00 UTC",
		},
		{"its host is down for other inboxes, and works", healthy().by(works), "verdict.Attempt {}"},
		{"another delivery is on trial", healthy().by(halfOpen), "park under host:a.example, until 1m0s for host:a.example: one delivery is on trial; the fault before: no answer in time"},
		{"it is on trial itself", healthy().by(halfOpen).onTrial(), "verdict.Attempt {}"},
		{
			"an earlier one of its group is parked", behind,
			"park under host:a.example held, due -, until 24h0m0s for host:a.example: an earlier delivery of its ordering key to this server is not over",
		},
		{
			"its inbox fails, and it is not the first for its host", left,
			"park under host:a.example held, due -, until 24h0m0s for host:a.example: an earlier delivery of its ordering key to this server is not over",
		},
		{
			"an earlier one to its inbox is parked, which left the line of the host", line,
			"park under host:a.example held alone, due -, until 24h0m0s for host:a.example: an earlier delivery of its ordering key to this inbox is not over",
		},
		{"its host has a rate limit", slow, "park under host:a.example, until 1m30s for host:a.example: waits for the rate limit of its server"},
		{"the same, in order, with a slot", slot, "park under host:a.example held, due 2m0s, until 2m0s for host:a.example: waits for the rate limit of its server"},
		{"the same by a protocol that does not park", slow.under(retry.Sipher()), "again in 1m30s for host:a.example: waits for the rate limit of its server"},
		{"a protocol without circuits asks none", healthy().by(refusing).under(retry.Sipher()), "verdict.Attempt {}"},
		{"its host is blocked", healthy().by(blocked), "verdict.Refused {Why:server is blocked: spam}"},
		{"its body is lost", broken(healthy()), "verdict.Dead {Reason:damaged Why:the body of the activity is missing or damaged Revive:0001-01-01 00:00:00 +0000 UTC}"},
		{"it is too old", old(healthy()), "verdict.Dead {Reason:age Why:not delivered within 168h0m0s Revive:0001-01-01 00:00:00 +0000 UTC}"},
		{"it is too old because its host is down", old(healthy().by(refusing)), "verdict.Dead {Reason:age Why:not delivered within 168h0m0s: connection refused Revive:2026-12-20 12:00:00 +0000 UTC}"},
		{"its inbox has it already", healthy().by(refusing).newer(coalesce.Verdict{State: activity.Redundant, By: "x"}), "verdict.Redundant {By:x}"},
		{"a newer one says it", healthy().newer(coalesce.Verdict{State: activity.Superseded, By: "x"}), "verdict.Superseded {By:x}"},
		{
			"a newer one is under way", healthy().newer(coalesce.Verdict{State: activity.Retrying, Until: in(time.Minute)}),
			"again in 1m0s for " + inbox + ": waits for another activity about the same object, which may be under way",
		},
		{"a blocked one is no redundant one", healthy().by(blocked).newer(coalesce.Verdict{State: activity.Redundant, By: "x"}), "verdict.Refused {Why:server is blocked: spam}"},
	} {
		if got := says(Decide(&c.s, target)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestWhatBecomesOfAnAttempt(t *testing.T) {
	failed := outcome.Outcome{Class: outcome.Retry, Status: 500, Err: "answered 500"}
	ours := outcome.Outcome{Class: outcome.Retry, Try: outcome.Untried, Err: "the key cannot be read"}
	unverified := outcome.Outcome{Class: outcome.Unverified, Status: 401, Err: "answered 401"}
	asks := failed
	asks.RetryAfter = in(time.Hour)
	full := outcome.Outcome{Class: outcome.Retry, Try: outcome.Waiting, Err: "waits for an earlier job"}
	elsewhere := refusing
	elsewhere.Took, elsewhere.Reason = "another inbox", ""
	for _, c := range []struct {
		name  string
		s     Snapshot
		tries int
		o     outcome.Outcome
		want  string
	}{
		{"accepted", healthy(), 1, outcome.Outcome{Class: outcome.Delivered, Status: 202}, "verdict.Delivered {}"},
		{"refused", healthy(), 1, outcome.Outcome{Class: outcome.Refused, Status: 404}, "verdict.Refused {Why:}"},
		{"the third doubt", healthy(), 3, outcome.Outcome{Class: outcome.Doubtful, Status: 400}, "verdict.Refused {Why:}"},
		{"the second doubt", healthy(), 2, outcome.Outcome{Class: outcome.Doubtful, Status: 400, Err: "answered 400"}, "again in 1m0s for host:a.example: answered 400"},
		{"the first failure", healthy(), 1, failed, "again in 5s for host:a.example: answered 500"},
		{"the fourth failure", healthy(), 4, failed, "again in 40s for host:a.example: answered 500"},
		{"a failure that names a time", healthy(), 1, asks, "again in 1h0m0s for host:a.example: answered 500"},
		{"the fifth failure", healthy(), 5, failed, "park under " + inbox + ", until 1m0s for " + inbox + ": answered 500"},
		{"the fifth 401", healthy(), 5, unverified, "park under " + signed + ", until 1m0s for " + signed + ": answered 401"},
		{"the fifth failure, in order", healthy().ordered(), 5, failed, "park under host:a.example held alone, due 5m0s, until 5m0s for host:a.example: answered 500"},
		{
			"the fifth failure of a protocol that does not park", healthy().under(retry.Sipher()), 5, failed,
			"verdict.Dead {Reason:exhausted Why:5 tries failed Revive:0001-01-01 00:00:00 +0000 UTC}",
		},
		{"a fault of ours after all tries", healthy(), 5, ours, "again in 1m20s for host:a.example: the key cannot be read"},
		{"a failure that opened the circuit", healthy().by(refusing), 1, failed, "park under host:a.example, until 5m0s for host:a.example: connection refused since 09:11 UTC"},
		{"the same, while another inbox accepts", healthy().by(elsewhere), 1, failed, "park under " + inbox + ", until 5m0s for host:a.example: no delivery accepted since 09:11 UTC"},
		{"no turn yet", healthy().under(retry.Sipher()), 1, full, "again in 5s for host:a.example: waits for an earlier job"},
	} {
		to := target
		to.Tries = c.tries
		if got := says(Classify(&c.s, to, c.o)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestWhoWaitsSaysWhyForWhomAndUntilWhen: whatever is known, of a delivery that waits.
func TestWhoWaitsSaysWhyForWhomAndUntilWhen(t *testing.T) {
	states := []circuit.State{{Key: host, Phase: circuit.Healthy}, refusing, halfOpen, fullBox, paused, limited, answers, {Key: host, Phase: circuit.Unhealthy}, {Key: inbox, Phase: circuit.Exhausted}}
	policies := []retry.Policy{retry.ActivityPub(), retry.Sipher(), retry.LDP()}
	property.Check(t, func(t *rapid.T) {
		state := func(name string) circuit.State { return states[rapid.IntRange(0, len(states)-1).Draw(t, name)] }
		s := healthy().by(state("one state")).by(state("another")).under(policies[rapid.IntRange(0, len(policies)-1).Draw(t, "policy")])
		s.Delivery.Ordered, s.Delivery.Trial = rapid.Bool().Draw(t, "ordered"), rapid.Bool().Draw(t, "trial")
		s.Delivery.Generation = rapid.IntRange(0, 2).Draw(t, "generation")
		if s.Delivery.Ordered {
			s.Found.Behind = rapid.SampledFrom([]Group{NoGroup, HostGroup, InboxGroup}).Draw(t, "behind")
		}
		if rapid.Bool().Draw(t, "over a limit") {
			s.Found.NotBefore, s.Found.Due = in(time.Minute), in(time.Minute)
		}
		to := target
		to.Tries = rapid.IntRange(0, 6).Draw(t, "tries")
		o := outcome.Outcome{
			Class: rapid.SampledFrom([]outcome.Class{outcome.Retry, outcome.Doubtful, outcome.Unverified, outcome.Throttled}).Draw(t, "class"),
			Try:   outcome.Try(rapid.IntRange(int(outcome.Made), int(outcome.Waiting)).Draw(t, "try")), Err: rapid.SampledFrom([]string{"", "no"}).Draw(t, "error"),
		}
		for _, v := range []Verdict{Decide(&s, to), ByServers(&s, to), Classify(&s, to, o), Crowded(&s, to, "crowded", time.Time{})} {
			var w Wait
			switch v := v.(type) {
			case Again:
				w = v.Wait
			case Park:
				if w = v.Wait; v.Under == "" || v.Held && !s.Delivery.Ordered {
					t.Fatalf("parked by %+v, want a lot, and held only if ordered", v)
				}
			default:
				continue
			}
			if o.Try == outcome.Waiting && o.Err == "" && w.Why() == "" {
				continue // the protocol has not said why
			}
			if w.Why() == "" || w.For() == "" || w.Until().IsZero() || w.Until().Before(s.Now) {
				t.Fatalf("%+v waits for %q until %s: %q", v, w.For(), w.Until(), w.Why())
			}
		}
	})
}
