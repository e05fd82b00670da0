package circuit

import (
	"cmp"
	"slices"
	"time"
)

// Rules are the numbers of the state machine. Zero fields mean the default.
type Rules struct {
	// OpenAfter failures in a row open the circuit.
	OpenAfter int
	// OpenShare of failures among at least OpenSample outcomes within Window
	// opens it too: a host that answers now and then is down for most.
	OpenShare  float64
	OpenSample int
	Window     time.Duration

	// The first check of an outage comes CheckSoon after its beginning, so that a
	// restart costs a minute. Then Checks more come, each CheckFirst + n·CheckStep
	// after the one before, and then one every CheckSlow while something is parked.
	// Defaults: 1 min, 5 min, 10 min, 5 checks, a day.
	CheckSoon             time.Duration
	CheckFirst, CheckStep time.Duration
	Checks                int
	CheckSlow             time.Duration
	// GiveUp is how long a server may be down before it is exhausted.
	GiveUp time.Duration

	// Ramp lists how many parked deliveries are released at the steps of a
	// recovery, RampEvery apart; the first is the trial, the last repeats.
	Ramp      []int
	RampEvery time.Duration
	// TrialTimeout is how long a trial may be under way before another is sent:
	// its message may have been lost to a crash, or be cancelled.
	TrialTimeout time.Duration
	// Trials of a check while the host answers them with errors.
	Trials int

	// MaxPause caps the pause that a server may ask for.
	MaxPause time.Duration
	// Throttled is the least pause of a server that asks for a second one without
	// having accepted anything since the first. It doubles with each further one,
	// up to MaxPause. Default 2 min.
	Throttled time.Duration
	// GoneFor is how long a server that is gone is believed, and GoneLook how
	// often it is looked at meanwhile: names change hands. Defaults: a day, 6 h.
	GoneFor, GoneLook time.Duration
	// Unknown is how long the record of a server is kept after its last change
	// while nothing is parked for it.
	Unknown time.Duration
}

const day = 24 * time.Hour

// Default returns the rules that fedpost is documented with.
func Default() Rules { return Rules{}.Complete() }

// Complete returns r with defaults for what is zero.
func (r Rules) Complete() Rules {
	r.OpenAfter = cmp.Or(r.OpenAfter, 5)
	r.OpenShare = cmp.Or(r.OpenShare, 0.7)
	r.OpenSample = cmp.Or(r.OpenSample, 10)
	r.Window = cmp.Or(r.Window, 5*time.Minute)
	r.CheckFirst = cmp.Or(r.CheckFirst, 5*time.Minute)
	r.CheckSoon = cmp.Or(r.CheckSoon, min(time.Minute, r.CheckFirst))
	r.CheckStep = cmp.Or(r.CheckStep, 10*time.Minute)
	r.Checks = cmp.Or(r.Checks, 5)
	r.CheckSlow = cmp.Or(r.CheckSlow, day)
	r.GiveUp = cmp.Or(r.GiveUp, 7*day)
	if len(r.Ramp) == 0 {
		r.Ramp = []int{1, 10, 50, 250, 1000}
	}
	r.RampEvery = cmp.Or(r.RampEvery, time.Minute)
	r.TrialTimeout = cmp.Or(r.TrialTimeout, 2*time.Minute)
	r.Trials = cmp.Or(r.Trials, 3)
	r.MaxPause = cmp.Or(r.MaxPause, 12*time.Hour)
	r.Throttled = cmp.Or(r.Throttled, 2*time.Minute)
	r.GoneFor = cmp.Or(r.GoneFor, day)
	r.GoneLook = cmp.Or(r.GoneLook, 6*time.Hour)
	r.Unknown = cmp.Or(r.Unknown, day)
	return r
}

// wait is how long after the n-th failed check of an outage (0: its beginning)
// the next is due; 0 if there is no next unless something is parked.
func (r Rules) wait(n int, parked bool) time.Duration {
	switch {
	case n == 0:
		return r.CheckSoon
	case r.quick(n):
		return r.CheckFirst + time.Duration(n-1)*r.CheckStep
	case parked:
		return r.CheckSlow
	}
	return 0
}

// quick reports whether another quick check follows the n-th failed one.
func (r Rules) quick(n int) bool { return n <= r.Checks }

// LastQuick reports whether the n-th failed check was the last of the quick ones.
func (r Rules) LastQuick(n int) bool { return n == r.Checks+1 }

// HeldWait is how long the head of an ordered group that does not get through to a
// server that accepts others waits for its next try, after n such waits.
func (r Rules) HeldWait(n int) time.Duration { return r.wait(max(0, n)+1, true) }

// throttled is the least pause of a server that asks for the n-th one in a row.
func (r Rules) throttled(n int) time.Duration {
	pause := r.Throttled
	for i := 2; i < n && pause < r.MaxPause; i++ {
		pause *= 2
	}
	return min(pause, r.MaxPause)
}

// rampAfter is the step that follows a release of n.
func (r Rules) rampAfter(n int) int {
	if i := slices.IndexFunc(r.Ramp, func(step int) bool { return step > n }); i >= 0 {
		return r.Ramp[i]
	}
	return r.Ramp[len(r.Ramp)-1]
}
