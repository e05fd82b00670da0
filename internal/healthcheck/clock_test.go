package healthcheck_test

import (
	"testing"
	"time"

	"fedpost/internal/servers/circuit"
)

func TestAClockThatIsSetBackStopsNoChecks(t *testing.T) {
	w, _ := outage(t, 3)
	p := &counting{}
	p.fail.Store(true)
	r := runner(w, p, nil)
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, due := p.n.Load(), state(t, w, circuit.HostKey("down.example")).CheckAt.Sub(w.Now())
	w.Clock.Advance(-time.Hour)
	for passed := time.Duration(0); passed <= due+minut; passed += minut {
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Clock.Advance(minut)
	}
	if n := p.n.Load() - before; n != 1 {
		t.Errorf("%d checks in the %s until one was due, and the state is %+v", n, due, state(t, w, circuit.HostKey("down.example")))
	}
}
