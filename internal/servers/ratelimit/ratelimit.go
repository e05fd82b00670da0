// Package ratelimit keeps deliveries to a host below the rate that an operator
// has set or that the host itself has taught us with a 429.
//
// It is GCRA, the leaky bucket as a single time: all there is to store is when
// the bucket will be empty (the theoretical arrival time), so a thousand
// functions share one limit through one small item, and a worker takes for a
// whole batch at once, in one conditional write. Hosts without a limit, which is
// nearly all of them, have no item and cost nothing.
// https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm
package ratelimit

import (
	"time"
)

// Limit is the limit of one host, and how much of it is used.
type Limit struct {
	Host string `json:"-"`
	// PerMinute is how many deliveries a minute are allowed; 0: any number.
	PerMinute int `json:"rate"`
	// Burst is how many of them may go at once after a pause; 0: those of five
	// seconds, at least one.
	Burst int `json:"burst,omitempty"`
	// LearntAt is when the limit was last learnt from the host; zero if an
	// operator set it.
	LearntAt time.Time `json:"learnt,omitzero"`
	// Until is when a learnt limit ends: servers change. Zero: it does not.
	Until time.Time `json:"until,omitzero"`
	// Step is what a learnt limit grows by for each minute in which it was used
	// and no 429 came, and GrownAt when it last did.
	Step    int       `json:"step,omitempty"`
	GrownAt time.Time `json:"grown,omitzero"`
	// Arrival is GCRA's theoretical arrival time.
	Arrival time.Time `json:"arrival,omitzero"`

	// Version fences saves; empty if there is no record yet.
	Version string `json:"-"`
	// Forget is when the record may be dropped; zero for never.
	Forget time.Time `json:"-"`
}

// InForce reports whether there is a limit at now.
func (l Limit) InForce(now time.Time) bool {
	return l.PerMinute > 0 && (l.Until.IsZero() || now.Before(l.Until))
}

// gap is the time between two deliveries at the full rate.
func (l Limit) gap() time.Duration { return time.Minute / time.Duration(l.PerMinute) }

func (l Limit) burst() int {
	if l.Burst > 0 {
		return l.Burst
	}
	return max(1, l.PerMinute/12)
}

// Book reserves up to n deliveries at now for times of their own, none of them
// later than horizon after now. It returns those times, earliest first, and l as
// it is after that. What is booked and not used is lost.
func (l Limit) Book(n int, horizon time.Duration, now time.Time) (slots []time.Time, after Limit) {
	if !l.InForce(now) {
		for range n {
			slots = append(slots, now)
		}
		return slots, l
	}
	arrival, gap := l.Arrival, l.gap()
	if arrival.Before(now) {
		arrival = now
	}
	early := time.Duration(l.burst()-1) * gap
	for range n {
		at := arrival.Add(-early)
		if at.Before(now) {
			at = now
		}
		if at.Sub(now) > horizon {
			break
		}
		slots, arrival = append(slots, at), arrival.Add(gap)
	}
	if len(slots) > 0 {
		l.Arrival = arrival
		l = l.grown(now)
	}
	return slots, l
}

// Take takes up to n deliveries at now. It returns how many may go at once, l as
// it is after that, and for the others when each may be worth another try. Those
// times are no reservation: a delivery that comes back takes anew, so that one
// which never does leaves no hole.
func (l Limit) Take(n int, now time.Time) (granted int, after Limit, later []time.Time) {
	if !l.InForce(now) {
		return n, l, nil
	}
	arrival := l.Arrival
	if arrival.Before(now) {
		arrival = now
	}
	// A delivery may come as much too early as the burst allows.
	early := time.Duration(l.burst()-1) * l.gap()
	if room := early - arrival.Sub(now); room >= 0 {
		granted = min(n, int(room/l.gap())+1)
	}
	arrival = arrival.Add(time.Duration(granted) * l.gap())
	if granted > 0 {
		l.Arrival = arrival
		l = l.grown(now)
	}
	for i := range n - granted {
		later = append(later, arrival.Add(time.Duration(i)*l.gap()-early))
	}
	return granted, l, later
}

// Set returns l as an operator sets it: perMinute 0 ends it. What is booked takes
// no longer at a higher rate than it would have taken from the start: otherwise
// whoever comes after a backlog that was booked for hours would wait for those.
func (l Limit) Set(perMinute, burst int, now time.Time) Limit {
	set := Limit{Host: l.Host, PerMinute: perMinute, Burst: burst, Arrival: l.Arrival, Version: l.Version}
	switch {
	case perMinute == 0:
		set.Arrival, set.Forget = time.Time{}, now
	case perMinute > l.PerMinute && l.PerMinute > 0 && l.Arrival.After(now):
		booked := float64(l.Arrival.Sub(now)) / float64(l.gap())
		set.Arrival = now.Add(time.Duration(booked * float64(set.gap())))
	}
	return set
}
