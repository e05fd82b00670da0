package batches

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fedpost/internal/testkit/property"
)

// TestBatchesAreFullAndInOrder: a batch ends only where the next element does not fit.
func TestBatchesAreFullAndInOrder(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 12), 0, 40).Draw(rt, "sizes")
		most, limit := rapid.IntRange(1, 5).Draw(rt, "most"), rapid.IntRange(0, 20).Draw(rt, "limit")
		var all []int
		for batch := range Of(sizes, most, limit, func(n int) int { return n }) {
			bytes := 0
			for _, n := range batch {
				bytes += n
			}
			if len(batch) == 0 || len(batch) > most || bytes > limit && len(batch) > 1 {
				rt.Errorf("a batch %v of at most %d and %d bytes", batch, most, limit)
			}
			all = append(all, batch...)
			if len(all) < len(sizes) && len(batch) < most && bytes+sizes[len(all)] <= limit {
				rt.Errorf("batch %v ends before %d, which fits", batch, sizes[len(all)])
			}
		}
		if !slices.Equal(all, sizes) {
			rt.Errorf("batches hold %v of %v", all, sizes)
		}
	})
}
