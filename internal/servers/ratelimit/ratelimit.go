// Package ratelimit keeps deliveries to a host below a rate that an operator has set, or that
// was learnt from 429 answers.
//
// The algorithm is GCRA, a leaky bucket that is stored as one time: when the bucket will be
// empty. So a thousand functions share a limit through one small item, and a worker reserves
// for a batch in one conditional write. A host without a limit has no item.
//
// https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm
package ratelimit

import (
	"time"
)

// Limit is the limit of one host, and its use.
type Limit struct {
	Host string `json:"-"`
	// PerMinute is how many deliveries a minute may go; 0: any number.
	PerMinute int `json:"rate"`
	// Burst is how many deliveries may go at once after a pause; 0: as many as five seconds
	// allow, at least one.
	Burst int `json:"burst,omitempty"`
	// LearntAt is when the limit was last learnt; zero: an operator set it.
	LearntAt time.Time `json:"learnt,omitzero"`
	// Until is when a learnt limit ends; zero: never.
	Until time.Time `json:"until,omitzero"`
	// Step is by how much a learnt limit grows per minute of use near TooMuch, the rate that
	// led to a 429. GrownAt is when it last grew; zero: it was not used yet.
	Step    int       `json:"step,omitempty"`
	TooMuch int       `json:"tooMuch,omitempty"`
	GrownAt time.Time `json:"grown,omitzero"`
	Arrival time.Time `json:"arrival,omitzero"`

	// Version is that of the stored record; empty: there is none.
	Version string `json:"-"`
	// Forget is when the record may be dropped; zero: never.
	Forget time.Time `json:"-"`
}

// InForce reports whether the limit applies at now.
func (l Limit) InForce(now time.Time) bool {
	return l.PerMinute > 0 && (l.Until.IsZero() || now.Before(l.Until))
}

func (l Limit) gap() time.Duration { return time.Minute / time.Duration(l.PerMinute) }

func (l Limit) burst() int {
	if l.Burst > 0 {
		return l.Burst
	}
	return max(1, l.PerMinute/12)
}

// Book reserves up to n deliveries at now, each for a time of its own within horizon. It
// returns these times, earliest first, and l with them. A time that is not used is lost.
func (l Limit) Book(n int, horizon time.Duration, now time.Time) (slots []time.Time, after Limit) {
	if !l.InForce(now) {
		for range n {
			slots = append(slots, now)
		}
		return slots, l
	}
	after, l = l, l.grown(now)
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
		after, after.Arrival = l, arrival
	}
	return slots, after
}

// Take takes up to n deliveries at now. It returns how many may go at once, l with those, and
// for each of the others when to try again. These times are not reserved.
func (l Limit) Take(n int, now time.Time) (granted int, after Limit, later []time.Time) {
	if !l.InForce(now) {
		return n, l, nil
	}
	after, l = l, l.grown(now)
	arrival := l.Arrival
	if arrival.Before(now) {
		arrival = now
	}
	// A burst allows a delivery to come this much early.
	early := time.Duration(l.burst()-1) * l.gap()
	if room := early - arrival.Sub(now); room >= 0 {
		granted = min(n, int(room/l.gap())+1)
	}
	arrival = arrival.Add(time.Duration(granted) * l.gap())
	if granted > 0 {
		after, after.Arrival = l, arrival
	}
	for i := range n - granted {
		later = append(later, arrival.Add(time.Duration(i)*l.gap()-early))
	}
	return granted, after, later
}

// Set returns l with an operator's limit; perMinute 0: none. At a higher rate the reserved time
// shrinks in proportion: otherwise new deliveries would wait for a backlog at the lower rate.
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
