package circuit

import (
	"cmp"
	"slices"
	"time"
)

// Rules are the parameters of the state machine. Zero fields but Revive mean the default.
type Rules struct {
	// OpenAfter failures in a row open the circuit. Default 5.
	OpenAfter int
	// The circuit also opens if at least the share OpenShare of at least OpenSample outcomes within
	// Window are failures. Defaults: 0.7, 10, 5 min.
	OpenShare  float64
	OpenSample int
	Window     time.Duration

	// Budget is how many requests a day a server gets that accepts nothing; requests whose
	// answer ended a delivery do not count. After three fifths the circuit opens; the others
	// are for trials. When all are spent, the next check comes after CheckSlow. Default 50.
	Budget int

	// The first check of an outage comes after CheckSoon. Then Checks more come, each
	// CheckFirst + n·CheckStep after the one before, and then one every CheckSlow while
	// something is parked. Defaults: 1 min, 5 min, 10 min, 5 checks, a day.
	CheckSoon             time.Duration
	CheckFirst, CheckStep time.Duration
	Checks                int
	CheckSlow             time.Duration
	// GiveUp is how long a server may be down before it is exhausted. Default 7 days.
	GiveUp time.Duration

	// Revive is how long after its death a delivery is revived if its server comes back. Zero:
	// never; Default has 30 days.
	Revive time.Duration

	// Ramp lists how many parked deliveries each step of a recovery releases; the first is the
	// trial, the last repeats. RampEvery is the time between steps. Defaults: 1, 10, 50, 250,
	// 1000; a minute.
	Ramp      []int
	RampEvery time.Duration
	// TrialTimeout is how long a trial may be under way before another is sent. Default 2 min.
	TrialTimeout time.Duration
	// Trials is how many trials, to different inboxes, fail before the check counts as failed.
	// Default 3.
	Trials int

	// MaxPause is the longest pause that a server may ask for. Default 12 h.
	MaxPause time.Duration
	// Throttled is the least pause of a server that asks for a second one without an accepted
	// delivery in between. It doubles with each further one, up to MaxPause. Default 2 min.
	Throttled time.Duration
	// GoneFor is how long a server counts as gone, and GoneLook how often it is probed
	// meanwhile, because names change hands. Defaults: a day, 6 h.
	GoneFor, GoneLook time.Duration
	// Unknown is how long a record is kept after its last change, if nothing is parked. Default
	// a day.
	Unknown time.Duration
}

const day = 24 * time.Hour

// Default returns the rules with all defaults.
func Default() Rules { return Rules{Revive: 30 * day}.Complete() }

// Complete returns r with defaults for what is zero, except Revive.
func (r Rules) Complete() Rules {
	r.OpenAfter = cmp.Or(r.OpenAfter, 5)
	r.OpenShare = cmp.Or(r.OpenShare, 0.7)
	r.OpenSample = cmp.Or(r.OpenSample, 10)
	r.Window = cmp.Or(r.Window, 5*time.Minute)
	r.Budget = cmp.Or(r.Budget, 50)
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

// wait is the time from the n-th failed check of an outage (0: its beginning) to the next. 0:
// there is none, because the quick checks are over and nothing is parked.
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

func (r Rules) opensAt() int { return max(1, r.Budget*3/5) }

// keysOpenAt is how many requests in vain open a circuit if the last ones were trials of signing
// keys: those of a first delivery with one key, and of six checks.
func (r Rules) keysOpenAt() int { return max(1, r.Budget*3/4+1) }

func (r Rules) quick(n int) bool { return n <= r.Checks }

// LastQuick reports whether the n-th failed check was the last quick one.
func (r Rules) LastQuick(n int) bool { return n == r.Checks+1 }

// HeldWait is the back-off of the head of an ordered group that fails while its server accepts
// others. n counts its waits so far, and age is how long it has been due. n includes checks of its
// server and inbox. So while age is less than all quick waits together, no wait is longer than the
// last quick one.
func (r Rules) HeldWait(n int, age time.Duration) time.Duration {
	n = max(0, n)
	var quick time.Duration
	for i := 1; i <= r.Checks; i++ {
		quick += r.wait(i, true)
	}
	if age < quick {
		n = min(n, r.Checks-1)
	}
	return r.wait(n+1, true)
}

// Longest is how long a delivery with the give-up time giveUp may be under way: a revived one has
// its full time again.
func (r Rules) Longest(giveUp time.Duration) time.Duration {
	if r.Revive <= 0 {
		return giveUp
	}
	return giveUp + r.Revive + giveUp
}

// throttled is the least pause of a server that asks for its n-th in a row.
func (r Rules) throttled(n int) time.Duration {
	pause := r.Throttled
	for i := 2; i < n && pause < r.MaxPause; i++ {
		pause *= 2
	}
	return min(pause, r.MaxPause)
}

// rampAfter is the step of the ramp after one of n deliveries.
func (r Rules) rampAfter(n int) int {
	if i := slices.IndexFunc(r.Ramp, func(step int) bool { return step > n }); i >= 0 {
		return r.Ramp[i]
	}
	return r.Ramp[len(r.Ramp)-1]
}
