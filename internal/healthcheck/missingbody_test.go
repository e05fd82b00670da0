package healthcheck_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/testkit/world"
)

// loseBody makes the parked delivery of an activity refer to a body that is stored apart, and
// removes a part of that body.
func loseBody(t *testing.T, w *world.World, key string, id activity.ID) {
	t.Helper()
	var found []parking.Parked
	for shard := range parking.Shards {
		ps, _, err := w.Raw().ParkedUnder(t.Context(), key, shard, "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ps {
			if p.Activity.ID == id {
				found = append(found, p, p) // what is parked together has its body apart
			}
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s is not parked under %s", id, key)
	}
	if err := w.Raw().Park(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	r := table.Prefix("A#"+string(id), "BODY#")
	r.Limit = 1
	parts, _, err := w.Engine.Table().Query(t.Context(), r)
	if err != nil || len(parts) != 1 {
		t.Fatalf("%d parts of the body, %v", len(parts), err)
	}
	if err := w.Engine.Table().Delete(t.Context(), parts[0].Key, table.Cond{}); err != nil {
		t.Fatal(err)
	}
}

// noise is text that does not shrink when it is packed.
func noise(n int) string {
	r, b := rand.New(rand.NewPCG(1, 2)), make([]byte, n)
	for i := range b {
		b[i] = byte('0' + r.IntN(75))
	}
	return strings.NewReplacer(`\`, "-", `"`, "-").Replace(string(b))
}

// TestAParkedDeliveryWhoseBodyIsMissingHoldsUpNoOther of its lot, whether ordered or not: each page
// with it failed to be read, so those behind it waited for ever, and its server was never tried
// again. It ends as dead; the others go on.
func TestAParkedDeliveryWhoseBodyIsMissingHoldsUpNoOther(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		t.Run(fmt.Sprintf("ordered=%t", ordered), func(t *testing.T) {
			w := world.New(t, world.Options{})
			w.Servers.Script("down.example", world.Down)
			var ids []activity.ID
			for i := range 6 {
				a := w.Activity("Create")
				a.Body = fmt.Sprintf(`{"n":%d,"x":"%s"}`, i, noise(5000))
				if ordered {
					a.OrderingKey = "a key"
				}
				ids = append(ids, w.Send(a, down))
			}
			w.Run(20*minut, time.Second)
			key := circuit.HostKey("down.example")
			if n := w.Parked(key); n != len(ids) {
				t.Fatalf("%d of %d are parked", n, len(ids))
			}
			lost := ids[0]
			loseBody(t, w, key, lost)
			w.Servers.Script("down.example", nil)
			w.Run(26*time.Hour, time.Minute)
			w.Expect(lost, map[string]activity.State{down: activity.Dead})
			for _, id := range ids[1:] {
				w.Expect(id, map[string]activity.State{down: activity.Delivered})
			}
			if ds := w.DeadLetters.Deaths; len(ds) != 1 || ds[0].Activity.ID != lost || ds[0].Reason != "damaged" {
				t.Errorf("dead letters: %+v", ds)
			}
			if s := state(t, w, key); s.Parked {
				t.Errorf("the server still waits: %s", world.Brief(s))
			}
			for _, r := range w.Servers.Got() {
				if r.Activity.Body == "" && !strings.HasPrefix(r.Inbox, "probe:") {
					t.Errorf("an activity without a body was sent: %+v", r)
				}
			}
		})
	}
}

// TestAParkedDeliveryWhoseBodyIsMissingEndsWhileItsServerIsDown: it is never the trial.
func TestAParkedDeliveryWhoseBodyIsMissingEndsWhileItsServerIsDown(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("down.example", world.Down)
	a := w.Activity("Create")
	a.Body = `{"x":"` + noise(5000) + `"}`
	lost, other := w.Send(a, down), w.Send(w.Activity("Create"), down)
	w.Run(20*minut, time.Second)
	loseBody(t, w, circuit.HostKey("down.example"), lost)
	w.Run(26*time.Hour, time.Minute)
	w.Expect(lost, map[string]activity.State{down: activity.Dead})
	w.Expect(other, map[string]activity.State{down: activity.Parked})
}
