package cost

import (
	"os"
	"strings"
	"testing"
	"time"

	"fedpost/internal/app/topology"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/servers/circuit"
)

// TestTheModelKnowsTheCode: the model's constants are those of the code.
func TestTheModelKnowsTheCode(t *testing.T) {
	r := circuit.Default()
	span := time.Minute
	for n := range quickOnes - 1 {
		span += r.CheckFirst + time.Duration(n)*r.CheckStep
	}
	if span-quickSpan > time.Minute || quickSpan > span {
		t.Errorf("%d checks take %v, the model has %v", quickOnes, span, quickSpan)
	}
	p := retry.ActivityPub()
	wait, all := p.First, time.Duration(0)
	for range p.Tries - 1 {
		all += wait
		wait = time.Duration(float64(wait) * p.Factor)
	}
	if all != backOff {
		t.Errorf("the quick tries take %v, the model has %v", all, backOff)
	}
	if topology.Enqueue.Memory != enqueueMemory || topology.HealthCheck.Memory != checkMemory {
		t.Error("the functions have other memory than the model")
	}
	if topology.HealthCheck.Timeout-10*time.Second != checkTime {
		t.Errorf("the health check has %v, the model %v and a reserve of 10 s", topology.HealthCheck.Timeout, checkTime)
	}
	for file, line := range map[string]string{
		"store/servers.go":           "const serverLots = 64",
		"store/find.go":              "const listShards = 128",
		"keys/keys.go":               "cmp.Or(o.CacheSize, 256)",
		"healthcheck/healthcheck.go": "cmp.Or(c.ProbeTimeout, 8*time.Second)",
	} {
		text, err := os.ReadFile("../../" + file)
		if err != nil || !strings.Contains(string(text), line) {
			t.Errorf("%s does not say %q any more, which the model takes for true: %v", file, line, err)
		}
	}
}
