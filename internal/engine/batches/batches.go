// Package batches cuts lists into batches that a service takes: by count and by bytes.
package batches

import "iter"

// Of cuts a list into batches of up to most elements, and of up to limit bytes together, in order.
// An element that is larger than limit is a batch by itself.
func Of[T any](all []T, most, limit int, size func(T) int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for len(all) > 0 {
			n, bytes := 1, size(all[0])
			for n < min(most, len(all)) && bytes+size(all[n]) <= limit {
				bytes += size(all[n])
				n++
			}
			if !yield(all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}
