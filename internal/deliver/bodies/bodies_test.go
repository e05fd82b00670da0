package bodies

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"fedpost/internal/activity"
)

func TestRememberedBodiesAreBounded(t *testing.T) {
	b := New(nil, 20)
	body := strings.Repeat("x", 100<<10)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for n := range 300 {
				id := activity.ID(fmt.Sprint(w, "/", n/2)) // each twice
				b.put(activity.Activity{ID: id, Body: body})
				if a, ok := b.get(id); ok && a.Body != body {
					t.Error("another body")
				}
			}
		})
	}
	wg.Wait()
	const many = most / (100 << 10)
	if len(b.of) > many || len(b.of) < many-1 || len(b.old) != len(b.of) || b.size != len(b.of)*len(body) {
		t.Errorf("%d bodies, %d in order, %d bytes; at most %d", len(b.of), len(b.old), b.size, most)
	}
	last := activity.Activity{ID: "last", Body: "y"}
	b.put(last)
	if a, ok := b.get("last"); !ok || a != last {
		t.Error("the last one is not remembered")
	}
	for range 2 {
		b.drop("last")
	}
	if _, ok := b.get("last"); ok || len(b.old) != len(b.of) || b.size != len(b.of)*len(body) {
		t.Errorf("after one was dropped: %d bodies, %d in order, %d bytes", len(b.of), len(b.old), b.size)
	}
	b.put(activity.Activity{ID: "huge", Body: strings.Repeat("z", most+1)})
	if len(b.of) != 0 || len(b.old) != 0 || b.size != 0 {
		t.Errorf("one that is too large leaves %d bodies of %d bytes", len(b.of), b.size)
	}
}
