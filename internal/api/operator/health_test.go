package operator_test

import (
	"testing"
	"time"

	"fedpost/internal/api"
)

// TestHealthSaysWhenNothingCanBeWritten, and strangers who ask do not make us
// write each time.
func TestHealthSaysWhenNothingCanBeWritten(t *testing.T) {
	w := newWorld(t)
	for range 100 {
		if a := w.do("GET", "/healthz", ""); a.status != 200 {
			t.Fatalf("answered %d %s", a.status, a.body)
		}
	}
	if n := w.broken.puts.Load(); n != 1 {
		t.Errorf("100 questions made %d writes", n)
	}
	w.clock = w.clock.Add(api.HealthEvery)
	w.outage(func() { w.refused(503, "Records cannot be written", "GET", "/healthz", "") })
	w.refused(503, "not-writable", "GET", "/healthz", "") // for the time that an answer holds
	w.clock = w.clock.Add(time.Minute)
	if a := w.do("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("when it is over: %d %s", a.status, a.body)
	}
}
