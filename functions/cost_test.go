package functions

import (
	"strings"
	"testing"

	"fedpost/internal/testkit/cost"
	"fedpost/internal/testkit/long"
)

// TestTheModelOfCosts sends an activity to 500 hosts over TLS through the built functions
// and counts what it uses: the model of package cost says the same.
func TestTheModelOfCosts(t *testing.T) {
	long.Only(t, "500 handshakes")
	const memory = 1769
	s, hosts := encrypted(t, memory, 0)
	s.period(func() {})
	var before cost.Snapshot
	var had int64
	var r run
	var lines []string
	for try := 1; try == 1 || r.again > 0; try++ {
		if try > 5 {
			t.Skip("this machine is too busy to make 500 deliveries in one batch")
		}
		before, had = s.aws.used.Snapshot(), hosts.Received()
		lines = s.period(func() { r = s.batches(hosts) })
	}
	used := s.aws.used.Snapshot().Since(before)
	sqs, table := used.Service("SQS"), used.Service("DynamoDB")
	sub := submission()
	model := cost.Load{Recipients: batch, Memory: memory, Body: len(sub.Activity)}.PerActivity()
	egress, log := float64(hosts.Received()-had), float64(len(strings.Join(lines, "\n")))
	t.Logf("%v\n%s%.0f bytes to a host, %.0f bytes of log\nmodel: %+v", r, used.Per(batch, "recipient"), egress/batch, log, model)
	// On a busy machine the invocation takes longer, and each second costs a write more.
	writes := table.WriteUnits - cost.CountWrites
	writes -= max(0, min(writes-model.Writes, r.took.Seconds()))
	for _, c := range []struct {
		what               string
		got, model, spread float64
	}{
		{"requests to SQS", float64(sqs.PayloadUnits), model.SQS, 0.1},
		{"write units", writes, model.Writes, 0.15},
		{"read units", table.ReadUnits, model.Reads, 0.15},
		{"bytes to hosts", egress, model.Egress, 0.1},
		// Lambda's own lines, and 26 bytes that CloudWatch adds to each, are not printed here.
		{"bytes of log", log, model.Log - (model.Invocations+1)*cost.LogLambda - 26, 0.1},
	} {
		if c.got > c.model*(1+c.spread) || c.got < c.model*(1-c.spread) {
			t.Errorf("%.1f %s, the model has %.1f; printed was\n%s", c.got, c.what, c.model, strings.Join(lines, "\n"))
		}
	}
}
