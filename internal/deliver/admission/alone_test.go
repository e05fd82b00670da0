package admission

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnAcceptanceEndsTheWaitForTheOnlyRequestUnderWay: it shows that the host or inbox is back.
// The others need not follow one by one.
func TestAnAcceptanceEndsTheWaitForTheOnlyRequestUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		result Result
		most   int
	}{"accepted": {Accepted, 6}, "failed": {Failed, 1}, "refused": {Unsent, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const attempts, takes = 100, 9 * time.Second
				s := New(Bounds{Places: 64, PerHost: 6, PerHostMost: 32}, time.Now)
				var fates sync.Map
				under, most, first := 0, 0, true
				var mu sync.Mutex
				for range attempts {
					a := attempt("a.example", 0, &fates)
					a.Alone = true
					a.Do = func(signed func()) Result {
						signed()
						fates.Store(a, "begun")
						mu.Lock()
						under++
						most = max(most, under)
						one := first
						first = false
						mu.Unlock()
						time.Sleep(takes) // virtual
						mu.Lock()
						under--
						mu.Unlock()
						if one {
							return c.result
						}
						return Failed
					}
					s.Enter(a)
				}
				time.Sleep(2 * takes) // virtual
				synctest.Wait()
				mu.Lock()
				if most != c.most {
					t.Errorf("%d under way at once after the first, want %d", most, c.most)
				}
				mu.Unlock()
				time.Sleep(attempts * takes)
				synctest.Wait()
				if n := count(&fates); n["done"] != attempts {
					t.Errorf("what became of them: %v", n)
				}
			})
		})
	}
}
