package main

import (
	"errors"
	"log/slog"
	"math"

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
