package main

import (
	"errors"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// memoryShare is the part of the memory of a container or service that Go's heap may grow
// to before the collector works harder (GOMEMLIMIT). The rest is for stacks and for what
// SQLite keeps.
const memoryShare = 0.9

// limitMemory sets GOMEMLIMIT from the memory that the process may have: its cgroup's. A
// GOMEMLIMIT in the environment wins. Without any limit, nothing changes.
func limitMemory(allowed memlimit.Provider, log *slog.Logger) {
	limit, err := memlimit.Set(memlimit.WithProvider(allowed), memlimit.WithRatio(memoryShare))
	switch {
	case err == nil && limit == math.MaxInt64, errors.Is(err, memlimit.ErrNoCgroup), errors.Is(err, memlimit.ErrCgroupsNotSupported):
		log.Debug("memory is not limited", "cause", err)
	case err != nil:
		log.Warn("the memory limit of the cgroup cannot be read", "error", err)
	default:
		log.Info("memory limit", "bytes", limit)
	}
}

// Go lets a heap grow to twice of what lives in it before it collects. That is right for the 20 MB of
// a quiet process. While thousands of servers fail, 110 MB live, with the stacks, and twice that is
// more than a small machine has. So Go's memory may grow to enough, and beyond it by headroom of what
// lives and slack. With less slack, collections take half of the processor; with this, a seventh
// while 20,000 servers fail.
const (
	enough   = 144 << 20
	headroom = 1.25
	slack    = 20 << 20
)

// spareMemory keeps GOMEMLIMIT near to what lives, from enough upwards, below the limit in force.
// A GOMEMLIMIT in the environment wins.
func spareMemory() {
	if _, set := os.LookupEnv("GOMEMLIMIT"); set {
		return
	}
	most := debug.SetMemoryLimit(-1)
	limit := limitFor(0, most)
	debug.SetMemoryLimit(limit)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	afterEachCollection(func() {
		metrics.Read(live)
		if next := limitFor(live[0].Value.Uint64()+live[1].Value.Uint64(), most); next != limit {
			limit = next
			debug.SetMemoryLimit(limit)
		}
	})
}

// limitFor is the limit where so many bytes live, but for the most that is allowed. Its steps are
// coarse, as each change stops the process for a moment.
func limitFor(live uint64, most int64) int64 {
	const step = 16 << 20
	limit := int64(math.Ceil((float64(live)*headroom+slack)/step)) * step
	return min(max(limit, enough), most)
}

// afterEachCollection calls f after each collection of garbage, from now on.
func afterEachCollection(f func()) {
	type garbage struct{ _ [64]byte }
	var next func(struct{})
	next = func(struct{}) {
		f()
		runtime.AddCleanup(new(garbage), next, struct{}{})
	}
	runtime.AddCleanup(new(garbage), next, struct{}{})
}
