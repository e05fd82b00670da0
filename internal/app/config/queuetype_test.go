package config

import (
	"errors"
	"strings"
	"testing"

	"fedpost/internal/engine/queue"
)

// TestQueuesOfAnotherTypeThanIsSaidAreRefused: each URL by itself, with the variable and what
// to do.
func TestQueuesOfAnotherTypeThanIsSaidAreRefused(t *testing.T) {
	fifo := map[string]string{"QUEUE_TYPE": "fifo"}
	for name, url := range deployed() {
		if strings.HasPrefix(name, "QUEUE_URL_") {
			fifo[name] = strings.TrimSuffix(url, ".fifo") + ".fifo"
		} else {
			fifo[name] = url
		}
	}
	var c Deliver
	if err := From(&c, fifo); err != nil || c.Queueing.Type != queue.FIFO {
		t.Errorf("all queues are FIFO queues: %q, %v", c.Queueing.Type, err)
	}
	if err := From(&c, deployed()); err != nil || c.Queueing.Type != queue.Standard {
		t.Errorf("without QUEUE_TYPE: %q, %v", c.Queueing.Type, err)
	}
	for name, env := range map[string]map[string]string{"fifo": deployed("QUEUE_TYPE", "fifo"), "standard": fifo} {
		if name == "standard" {
			env["QUEUE_TYPE"] = "standard"
		}
		var c Deliver
		e, ok := errors.AsType[*Error](From(&c, env))
		if !ok || len(e.Faults) != 4 {
			t.Fatalf("%s: %v, want faults of the three priorities and their dead letters", name, e)
		}
		for _, f := range e.Faults {
			if strings.Contains(f.Variable, "ORDERED") || !strings.Contains(f.Wrong, "QUEUE_TYPE is "+name) {
				t.Errorf("%s: %s", name, f)
			}
		}
	}
	e, ok := errors.AsType[*Error](From(&c, deployed("QUEUE_TYPE", "FIFO!", "QUEUE_URL_ORDERED", "https://sqs.example/1/plain")))
	if !ok || len(e.Faults) != 1 || e.Faults[0].String() != `QUEUE_TYPE is "FIFO!"; set it to standard or fifo` {
		t.Errorf("an unknown type: %v", e)
	}
	if e, ok := errors.AsType[*Error](From(&c, deployed("QUEUE_URL_ORDERED", "https://sqs.example/1/plain"))); !ok || len(e.Faults) != 1 || e.Faults[0].Variable != "QUEUE_URL_ORDERED" {
		t.Errorf("an ordered queue that keeps no order: %v", e)
	}
}
