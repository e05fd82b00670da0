// Package property gives tests random values that are the same in each run of the same tree: a
// change must not fail for a value that no other run meets.
//
// By default the seed follows from the name of the test. With the switch of package long, as in
// nightly runs, each run draws a new seed; what it finds becomes a test of its own. -rapid.seed
// and RAPID_SEED set another seed; rapid prints that of each failure.
//
//	property.Check(t, func(t *rapid.T) {
//		n := rapid.IntRange(0, 100).Draw(t, "n")
//		…
//	})
package property

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"fedpost/internal/testkit/long"
)

// seedFlag is the only way to give rapid a seed.
const seedFlag = "rapid.seed"

var (
	// mu guards rapid's flag, which rapid reads before it runs a property for the first time.
	mu sync.Mutex
	// asked is the seed of the command line or the environment; 0 is none.
	asked = sync.OnceValue(func() uint64 {
		// Rapid has parsed it.
		seed, _ := strconv.ParseUint(flag.Lookup(seedFlag).Value.String(), 10, 64)
		return seed
	})
	// calls counts the calls of a test, each of which has a seed of its own.
	calls = map[string]int{}
)

// Under the race detector properties are tried less often, as each takes ten times as long, and
// any of them shows a race.
func init() {
	if long.UnderRace {
		if err := flag.Set("rapid.checks", "15"); err != nil {
			panic(err)
		}
	}
}

// Check is rapid.Check with a seed that the test's name decides.
func Check(t *testing.T, prop func(*rapid.T)) {
	t.Helper()
	mu.Lock()
	var begun sync.Once
	defer begun.Do(mu.Unlock)
	if err := flag.Set(seedFlag, fmt.Sprint(seed(t.Name()))); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		begun.Do(mu.Unlock)
		prop(rt)
	})
}

// Rand is a source of random numbers, of a seed that the test's name decides.
func Rand(t testing.TB) *rand.Rand {
	mu.Lock()
	defer mu.Unlock()
	s := seed(t.Name())
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-%s=%d", seedFlag, s)
	return rand.New(rand.NewPCG(s, 0))
}

// seed is the seed of a test's next call, or 0 if a new one is to be drawn. mu is held.
func seed(name string) uint64 {
	if s := asked(); s != 0 || long.On() {
		return s
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", calls[name], name)
	calls[name]++
	return h.Sum64()
}
