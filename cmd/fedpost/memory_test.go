package main

import (
	"errors"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// TestTheMemoryOfTheCgroupIsRespected, but a GOMEMLIMIT that is set wins.
func TestTheMemoryOfTheCgroupIsRespected(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	const gib = 1 << 30
	for _, c := range []struct {
		name    string
		env     string
		allowed memlimit.Provider
		want    int64
		says    string
	}{
		{"a cgroup", "", memlimit.Limit(gib), gib * 9 / 10, "memory limit"},
		{"a setting", "2GiB", memlimit.Limit(gib), math.MaxInt64, ""},
		{"no limit", "", func() (uint64, error) { return 0, memlimit.ErrNoLimit }, math.MaxInt64, "is not limited"},
		{"an error", "", func() (uint64, error) { return 0, errors.New("no such file") }, math.MaxInt64, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			t.Setenv("GOMEMLIMIT", c.env)
			if c.env == "" {
				if err := os.Unsetenv("GOMEMLIMIT"); err != nil {
					t.Fatal(err)
				}
			}
			var b strings.Builder
			limitMemory(c.allowed, slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
			if got := debug.SetMemoryLimit(-1); got != c.want {
				t.Errorf("limit %d, want %d", got, c.want)
			}
			if !strings.Contains(b.String(), c.says) {
				t.Errorf("the log says %q", &b)
			}
		})
	}
}

func TestTheMemoryLimitFollowsWhatLives(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live uint64
		most int64
		want int64
	}{
		{0, math.MaxInt64, enough},
		{60 * mib, math.MaxInt64, enough},
		{200 * mib, math.MaxInt64, 272 * mib},
		{200 * mib, 256 * mib, 256 * mib},
		{0, 100 * mib, 100 * mib},
	} {
		if got := limitFor(c.live, c.most); got != c.want {
			t.Errorf("the limit is %d MiB where %d live and %d are allowed, want %d", got/mib, c.live/mib, c.most/mib, c.want/mib)
		}
	}
}

// The collector runs, and each of its runs calls.
func TestEachCollectionIsNoticed(t *testing.T) {
	noticed := make(chan struct{}, 100)
	afterEachCollection(func() {
		select {
		case noticed <- struct{}{}:
		default:
		}
	})
	for range 3 {
		runtime.GC()
		<-noticed
	}
}

func TestAMemoryLimitOfTheUserIsLeftAlone(t *testing.T) {
	before := debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	t.Setenv("GOMEMLIMIT", "1GiB")
	if spareMemory(); debug.SetMemoryLimit(-1) != math.MaxInt64 {
		t.Error("the limit was changed")
	}
}
