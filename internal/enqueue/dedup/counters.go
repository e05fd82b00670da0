package dedup

import (
	"sync/atomic"

	"fedpost/internal/activity"
)

// Counts holds how often each event has happened since the process started.
type Counts struct {
	Hits       int64 `json:"hits"`       // calls answered as duplicates
	Held       int64 `json:"held"`       // calls told to retry, as another holds the lease
	Mismatches int64 `json:"mismatches"` // keys used for another request
	TakeOvers  int64 `json:"takeOvers"`  // lapsed leases continued
	Releases   int64 `json:"releases"`   // leases given back
	Fallbacks  int64 `json:"fallbacks"`  // markers that could not be written
}

type counters struct {
	hits, held, mismatches, takeOvers, releases, fallbacks atomic.Int64
}

// NativeHit counts a duplicate that was found by its record, without a marker.
func (g *Guard) NativeHit() { g.hit() }

func (g *Guard) hit() {
	g.counts.hits.Add(1)
	g.o.Counted(Duplicates, 1)
}

// NativeFallback counts a call whose key could not be looked up.
func (g *Guard) NativeFallback() {
	g.counts.fallbacks.Add(1)
	g.o.Counted(Fallbacks, 1)
}

// NativeMismatch counts a native key that stands for a different request, and
// returns the *MismatchError.
func (g *Guard) NativeMismatch(id activity.ID) error {
	g.counts.mismatches.Add(1)
	return &MismatchError{ID: id}
}

// Counts returns the counters.
func (g *Guard) Counts() Counts {
	return Counts{
		Hits:       g.counts.hits.Load(),
		Held:       g.counts.held.Load(),
		Mismatches: g.counts.mismatches.Load(),
		TakeOvers:  g.counts.takeOvers.Load(),
		Releases:   g.counts.releases.Load(),
		Fallbacks:  g.counts.fallbacks.Load(),
	}
}
