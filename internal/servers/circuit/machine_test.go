package circuit

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/testkit/property"
)

// TestTheStateMachineKeepsItsPromises drives a server through anything that can
// happen to it, in any order, and checks after each step what must always hold.
func TestTheStateMachineKeepsItsPromises(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		now, s := t0, fresh()
		inbox := rapid.SampledFrom([]string{"https://a.example/1", "https://a.example/2", "https://a.example/3"})
		slow := rapid.Map(rapid.Int64Range(-1e9, 1e15), func(pause int64) outcome.Outcome {
			o := answered(outcome.Throttled, 429)
			o.RetryAfter = now.Add(time.Duration(pause))
			return o
		})
		change := func(next State) {
			if next != s && !next.Forget.IsZero() && !next.Forget.After(now) {
				t.Fatalf("the saved state has expired already: %+v", next)
			}
			s = next
		}
		t.Repeat(map[string]func(*rapid.T){
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.Int64Range(1, int64(2*day)).Draw(t, "passes")))
			},
			"to the next check": func(t *rapid.T) {
				if s.CheckAt.After(now) {
					now = s.CheckAt
				}
			},
			"attempts": func(t *rapid.T) {
				var o Observation
				for range rapid.IntRange(1, 12).Draw(t, "n") {
					o = o.Add(inbox.Draw(t, "inbox"), rapid.SampledFrom([]outcome.Outcome{ok(), fault(0), fault(500), slow.Draw(t, "slow"), answered(outcome.Unverified, 401)}).Draw(t, "outcome"))
				}
				accepted, paused := s.Accepts(now), s.Phase == Paused
				culprit := s.Culprit(rules, o, now)
				change(s.Observe(rules, o, now))
				if culprit != "" && (!s.Accepts(now) || !s.InboxesUntil.After(now)) {
					t.Fatalf("%s is to blame, and the host's circuit opened", culprit)
				}
				if !accepted && s.Accepts(now) && !(paused && o.Accepted > 0) {
					t.Fatal("attempts closed a circuit")
				}
			},
			"429": func(t *rapid.T) {
				change(s.Throttle(rules, now.Add(time.Duration(rapid.Int64Range(-1e9, 1e15).Draw(t, "for"))), "", now))
			},
			"410": func(t *rapid.T) { change(s.SaidGone(rules, "", now)) },
			"looked": func(t *rapid.T) {
				if !s.Doubt && s.Settled(now).Phase != Gone {
					return
				}
				if rapid.Bool().Draw(t, "gone") {
					change(s.ConfirmedGone(rules, "", now))
				} else {
					change(s.NotGone(rules, now))
				}
			},
			"park":    func(t *rapid.T) { change(s.Park(rules, now)) },
			"missed":  func(t *rapid.T) { change(s.Missed(rules, now)) },
			"hold":    func(t *rapid.T) { change(s.Hold(rules, now)) },
			"drained": func(t *rapid.T) { change(s.Drained(rules, now)) },
			"emptied": func(t *rapid.T) { change(s.Emptied(rules, now)) },
			"inbox fault": func(t *rapid.T) {
				change(s.InboxFault(rules, now))
				if !s.InboxesUntil.After(now.Add(rules.GiveUp)) {
					t.Fatalf("the state is %+v, want inboxes known until after the give-up time", s)
				}
			},
			"schedule": func(t *rapid.T) {
				if s.CheckAt.IsZero() || s.CheckAt.After(now) {
					return
				}
				good := rapid.Bool().Draw(t, "good")
				switch s.Settled(now).Phase {
				case Unhealthy, Exhausted:
					checks := s.Checks
					if good {
						change(s.CheckPassed(rules, now))
					} else if change(s.CheckFailed(rules, outcome.Timeout, "", now)); s.Checks != checks+1 {
						t.Fatalf("a failed check was not counted: %+v", s)
					}
				case HalfOpen:
					change(s.TrialSent(rules, inbox.Draw(t, "inbox"), rapid.Bool().Draw(t, "sole"), Sweep{}, now))
					if rapid.Bool().Draw(t, "lost") {
						return
					}
					switch unverified := rapid.Bool().Draw(t, "unverified"); {
					case good && unverified:
						change(s.TrialAnswered(rules, now))
					case good:
						change(s.TrialPassed(rules, "", now))
					default:
						change(s.TrialFailed(rules, rapid.SampledFrom([]outcome.Reason{outcome.Timeout, outcome.ReasonNone}).Draw(t, "reason"), "", now))
					}
				case Healthy, Recovering:
					if !s.Parked {
						change(s.Idle(rules, now))
						return
					}
					n, next := s.NextRelease(rules, now)
					if n < 1 || n > 1000 {
						t.Fatalf("%d may be released", n)
					}
					change(next)
					if rapid.Bool().Draw(t, "stuck") {
						change(s.Stuck(rules, now))
					}
				default:
					change(s.Begin(rules, day, now))
				}
			},
			"operator": func(t *rapid.T) {
				switch rapid.IntRange(0, 5).Draw(t, "does") {
				case 0:
					change(s.Block(rules, "", now))
				case 1:
					change(s.Unblock(rules, now))
				case 2:
					change(s.Pause(rules, time.Time{}, "", now))
				case 3:
					change(s.Pause(rules, now.Add(time.Hour), "", now))
				case 4:
					change(s.Resume(rules, now))
				case 5:
					change(s.CheckNow(rules, now))
				}
			},
			"": func(t *rapid.T) {
				switch {
				case s.Parked && s.CheckAt.IsZero():
					t.Fatalf("a delivery is parked and no step is scheduled: %+v", s)
				case s.Parked && !s.Forget.IsZero() && s.Forget.Before(s.CheckAt):
					t.Fatalf("the record expires before the next look at the lot: %+v", s)
				case s.Phase == Unhealthy && s.DownSince.IsZero():
					t.Fatalf("the server is down without a start of its outage: %+v", s)
				case s.Phase == Unhealthy && s.CheckAt.IsZero() && s.Checks < rules.Checks:
					t.Fatalf("the server is down without a scheduled check: %+v", s)
				case s.Streak >= rules.OpenAfter:
					t.Fatalf("%d failures in a row, and the circuit is closed: %+v", s.Streak, s)
				case s.Phase == Paused && !s.Until.IsZero() && s.Until.Sub(s.Since) > max(rules.MaxPause, time.Hour):
					t.Fatalf("paused for longer than the cap: %+v", s)
				case s.Decision(now) == Wait && s.Phase != Unhealthy && s.Phase != HalfOpen && s.Phase != Paused && s.Phase != Exhausted:
					t.Fatalf("the state is %+v, which has no reason to wait", s)
				}
			},
		})
	})
}
