// Package ratelimit keeps deliveries to a host below the rate that an operator
// has set or that was learnt from the host's 429 answers.
//
// The algorithm is GCRA, which stores a leaky bucket as one time: when the bucket
// will be empty (the theoretical arrival time). So a thousand functions share a
// limit through one small item, and a worker reserves for a whole batch in one
// conditional write. Nearly all hosts have no limit; they have no item and cost
// nothing.
//
// https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm
package ratelimit

import (
	"time"
)

// Limit is the limit of one host, and how much of the limit is used.
type Limit struct {
	Host string `json:"-"`
	// PerMinute is how many deliveries a minute are allowed; 0: no limit.
	PerMinute int `json:"rate"`
	// Burst is how many deliveries may go at once after a pause; 0: as many as
	// five seconds allow, at least one.
	Burst int `json:"burst,omitempty"`
	// LearntAt is when the limit was last learnt from the host; zero if an
	// operator set it.
	LearntAt time.Time `json:"learnt,omitzero"`
	// Until is when a learnt limit ends, because servers change. Zero: the limit
	// does not end.
	Until time.Time `json:"until,omitzero"`
	// Step is by how much a learnt limit grows for each minute in which it was used
	// without a 429, near the rate TooMuch that had led to one. GrownAt is when the
	// limit grew last; zero before its first use.
	Step    int       `json:"step,omitempty"`
	TooMuch int       `json:"tooMuch,omitempty"`
	GrownAt time.Time `json:"grown,omitzero"`
	// Arrival is GCRA's theoretical arrival time.
	Arrival time.Time `json:"arrival,omitzero"`

	// Version fences saves; empty if nothing is stored yet.
	Version string `json:"-"`
	// Forget is when the record may be dropped; zero for never.
	Forget time.Time `json:"-"`
}

// InForce reports whether the limit applies at now.
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

// Book reserves up to n deliveries at now, each for a time of its own, at most
// horizon after now. It returns those times, earliest first, and l with the
// bookings added. A booked time that is not used is lost.
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

// Take takes up to n deliveries at now. It returns how many may go at once, l
// with those added, and for each of the others when to try again. Those times are
// no reservation: a delivery that comes back calls Take anew, so a delivery that
// never comes back leaves no unused slot.
func (l Limit) Take(n int, now time.Time) (granted int, after Limit, later []time.Time) {
	if !l.InForce(now) {
		return n, l, nil
	}
	arrival := l.Arrival
	if arrival.Before(now) {
		arrival = now
	}
	// The burst allows a delivery to come up to this much early.
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

// Set returns l with an operator's limit; perMinute 0 removes the limit. At a
// higher rate the booked deliveries take only as long as they would have taken at
// that rate from the start. Otherwise new deliveries would wait for hours behind
// a backlog that was booked at the lower rate.
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
