package healthcheck_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"fedpost/internal/healthcheck"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/world"
)

// broken is a store of which every second shard cannot be read, and no server of the others.
type broken struct{ circuit.Store }

const perShard = 20

func (broken) DueServers(_ context.Context, shard int, now time.Time, _ int) ([]circuit.State, error) {
	if shard%2 == 1 {
		return nil, errors.New("injected: no shard")
	}
	due := make([]circuit.State, perShard)
	for i := range due {
		due[i] = circuit.State{Key: circuit.HostKey(fmt.Sprintf("h%d-%d.example", shard, i)), Phase: circuit.Unhealthy, Parked: true, CheckAt: now}
	}
	return due, nil
}

func (broken) Servers(context.Context, ...string) (map[string]circuit.State, error) {
	return nil, errors.New("injected: no servers")
}

func (broken) SaveServer(_ context.Context, s circuit.State) (circuit.State, error) {
	return s, errors.New("injected: no server")
}

// TestFailuresOfShardsAndStepsAreAllReported: a shard that cannot be read is recorded while steps
// of servers of the shard before fail. Without a lock one of them was lost, or the run crashed.
func TestFailuresOfShardsAndStepsAreAllReported(t *testing.T) {
	w := world.New(t, world.Options{})
	r := runner(w, &counting{}, func(c *healthcheck.Config) { c.Servers = broken{w.Store} })
	for range 20 {
		err := r.Run(t.Context())
		if err == nil {
			t.Fatal("no failure is told")
		}
		shards, steps := strings.Count(err.Error(), "find due servers of shard"), strings.Count(err.Error(), "server host:")
		if want := circuit.Shards / 2; shards != want || steps != want*perShard {
			t.Fatalf("%d shards and %d steps are told, want %d and %d", shards, steps, want, want*perShard)
		}
	}
}
