package retry

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/testkit/property"
)

func TestPresetsWaitAsTheirProtocolsDo(t *testing.T) {
	for _, c := range []struct {
		name  string
		tries int
		waits []time.Duration // without jitter
		park  bool
	}{
		{"activitypub", 5, []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second}, true},
		{"sipher", 5, []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second}, false},
		{"ldp", 4, []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}, false},
	} {
		p, err := Preset(c.name)
		if err != nil || p.Validate() != nil || p.Name != c.name {
			t.Fatalf("%s: %v, %v", c.name, err, p.Validate())
		}
		if p.Tries != c.tries || p.Park != c.park {
			t.Errorf("%s: %+v", c.name, p)
		}
		p.Jitter = 0
		for i, want := range c.waits {
			if got := p.Wait(i+1, 0.5); got != want {
				t.Errorf("%s waits %s after failure %d, want %s", c.name, got, i+1, want)
			}
		}
	}
	if _, err := Preset("none"); !errors.Is(err, ErrPolicy) {
		t.Errorf("error %v", err)
	}
}

func TestWaitsStayWithinWhatAQueueCanHoldAndWithinTheJitter(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		p := Policy{
			Tries: 3, First: time.Duration(rapid.Int64Range(0, int64(MaxWait)).Draw(t, "first")),
			Factor: rapid.Float64Range(1, 100).Draw(t, "factor"), Jitter: rapid.Float64Range(0, 0.99).Draw(t, "jitter"),
		}
		n := rapid.IntRange(-1, 1000).Draw(t, "attempts")
		got := p.Wait(n, rapid.Float64Range(0, 0.999).Draw(t, "random"))
		if got < 0 || got > MaxWait {
			t.Fatalf("wait of %s", got)
		}
		mean := float64(p.First) * math.Pow(p.Factor, float64(max(n, 1)-1))
		if low := min(mean*(1-p.Jitter), float64(MaxWait)); float64(got) < low-1 {
			t.Fatalf("wait of %s, at least %s", got, time.Duration(low))
		}
		if high := mean * (1 + p.Jitter); float64(got) > high+1 {
			t.Fatalf("wait of %s, at most %s", got, time.Duration(high))
		}
	})
}

func TestOnlyWhatMayPassIsTriedAgain(t *testing.T) {
	answer, silence := outcome.Outcome{Class: outcome.Retry, Status: 500}, outcome.Outcome{Class: outcome.Retry, Reason: outcome.Timeout}
	for _, c := range []struct {
		o           outcome.Outcome
		usual, netw bool
	}{
		{answer, true, false},
		{silence, true, true},
		{outcome.Outcome{Class: outcome.Throttled, Status: 429}, true, false},
		{outcome.Outcome{Class: outcome.Doubtful, Status: 400}, true, false},
		{outcome.Outcome{Class: outcome.Unverified, Status: 401}, true, false},
		{outcome.Outcome{Class: outcome.Refused, Status: 404}, false, false},
		{outcome.Outcome{Class: outcome.Gone, Status: 410}, false, false},
		{outcome.Outcome{Class: outcome.Delivered, Status: 202}, false, false},
	} {
		if ActivityPub().Again(c.o, 1) != c.usual || LDP().Again(c.o, 1) != c.netw {
			t.Errorf("%+v is tried again by ActivityPub and LDP otherwise than %t and %t", c.o, c.usual, c.netw)
		}
	}
	doubt := outcome.Outcome{Class: outcome.Doubtful, Status: 400}
	if p := ActivityPub(); !p.Again(doubt, 2) || p.Again(doubt, 3) {
		t.Error("a doubtful refusal is not tried three times")
	}
	p, all := ActivityPub(), time.Duration(0)
	for tries := 1; p.Again(doubt, tries); tries++ {
		all += p.WaitAfter(doubt, tries, 0.5)
	}
	if all < time.Minute || all > 5*time.Minute {
		t.Errorf("the tries of a doubtful refusal take %s", all)
	}
}

func TestTriesLeft(t *testing.T) {
	for attempts, want := range map[int]int{0: 5, 1: 4, 5: 0, 6: 0} {
		if got := ActivityPub().Left(attempts); got != want {
			t.Errorf("%d left after %d", got, attempts)
		}
	}
}

func TestPoliciesThatCannotWorkAreRefused(t *testing.T) {
	good := ActivityPub()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Policy){
		"no try":           func(p *Policy) { p.Tries = 0 },
		"long wait":        func(p *Policy) { p.First = time.Hour },
		"negative wait":    func(p *Policy) { p.First = -1 },
		"shrinking waits":  func(p *Policy) { p.Factor = 0.5 },
		"jitter of all":    func(p *Policy) { p.Jitter = 1 },
		"no end":           func(p *Policy) { p.GiveUp = 0 },
		"negative timeout": func(p *Policy) { p.Timeout = -1 },
		"unreleased lot":   func(p *Policy) { p.Circuit = false },
	} {
		p := good
		change(&p)
		if err := p.Validate(); !errors.Is(err, ErrPolicy) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
