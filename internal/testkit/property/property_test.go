package property

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fedpost/internal/testkit/long"
)

// drawn returns what a test draws by either function, in a process of its own.
func drawn(t *testing.T) []uint64 {
	mu.Lock()
	delete(calls, t.Name())
	mu.Unlock()
	return more(t)
}

// more returns its next draws.
func more(t *testing.T) []uint64 {
	all := []uint64{Rand(t).Uint64()}
	Check(t, func(rt *rapid.T) { all = append(all, rapid.Uint64().Draw(rt, "n")) })
	return all
}

func TestATestDrawsTheSameInEveryProcess(t *testing.T) {
	t.Setenv(long.Variable, "")
	first := drawn(t)
	if second := drawn(t); !slices.Equal(second, first) {
		t.Errorf("the second process drew %x…, the first one %x…", second[:3], first[:3])
	}
	if next := more(t); slices.Equal(next, first) {
		t.Errorf("a second call in one test drew %x… again", next[:3])
	}
	t.Run("of another name", func(t *testing.T) {
		if other := drawn(t); slices.Equal(other, first) {
			t.Errorf("two tests drew the same, %x…", other[:3])
		}
	})
}

func TestTheNightDrawsAnew(t *testing.T) {
	t.Setenv(long.Variable, "1")
	first := drawn(t)
	if second := drawn(t); slices.Equal(second, first) {
		t.Errorf("two nights drew the same, %x…", second[:3])
	}
}

// Under the race detector this shows, too, that no seed is set while rapid reads one.
func TestTestsThatRunSideBySideKeepTheirSeeds(t *testing.T) {
	for _, name := range []string{"a", "b", "c", "d"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := drawn(t)
			if second := drawn(t); !long.On() && !slices.Equal(second, first) {
				t.Errorf("the second process drew %x…, the first one %x…", second[:3], first[:3])
			}
		})
	}
}
