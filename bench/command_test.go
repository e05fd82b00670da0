package bench

import (
	"encoding/json"
	"os/exec"
	"testing"

	load "fedpost/internal/app/bench"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/long"
)

// TestTheCommandMeasuresEachMix runs `fedpost bench` as a user does: a server of its own,
// plain and over TLS, a few activities of each mix, and some servers that hang.
func TestTheCommandMeasuresEachMix(t *testing.T) {
	long.Only(t, "starts a server for each mix")
	t.Parallel()
	command := e2e.Build(t)
	for _, flags := range [][]string{
		{"--mix", "fanout,single,ordered,keyed", "--key", "ed25519"},
		{"--mix", "fanout", "--key", "rsa", "--tls", "--http2", "--answer", "1ms-5ms", "--sick", "0.2"},
	} {
		args := append([]string{"bench", "--json", "--activities", "20", "--recipients", "60", "--callers", "4", "--hosts", "10"}, flags...)
		cmd := exec.CommandContext(t.Context(), command, args...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		var r load.Report
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatal(err)
		}
		if err := r.Err(); err != nil || len(r.Results) == 0 {
			t.Errorf("%d runs, error %v", len(r.Results), err)
		}
		for _, one := range r.Results {
			want := 1200
			if one.Sick > 0 {
				want = 960
			}
			if one.Deliveries != want || one.PerSecond <= 0 {
				t.Errorf("%s: %d deliveries, want %d; %.0f a second", one.Mix, one.Deliveries, want, one.PerSecond)
			}
			if one.TLS && one.Handshakes == 0 {
				t.Error("no TLS handshake was counted")
			}
		}
	}
}
