package enqueue_test

import (
	"strings"
	"testing"

	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/testkit/faults"
)

// TestQueuesAreFairToTheActorWhoeverSigns: many actors may share the key of an instance or a relay.
func TestQueuesAreFairToTheActorWhoeverSigns(t *testing.T) {
	q := &capable{caps: queue.Capabilities{Fair: true}}
	w := newWorld(t, faults.NewPlan(), func(s *settings) {
		s.enqueue.Queues = map[queue.Name]queue.Sender{queue.Normal: q}
	})
	const own = `{"id":"https://social.example/notes/1","type":"Create","actor":"https://social.example/users/frida"}`
	tenants := map[string]bool{}
	for _, text := range []string{own, strings.ReplaceAll(own, "frida", "gus"), strings.ReplaceAll(own, "frida", "heidi")} {
		w.must(request(func(r *enqueue.Request) { r.Body, r.AllowKeyOfOther = &text, true }), enqueue.Queued)
		tenants[q.last.OrderingKey] = true
	}
	if len(tenants) != 3 || tenants[""] {
		t.Errorf("tenants of the queue %v, want one for each actor", tenants)
	}
	w.must(request(func(r *enqueue.Request) {
		text := strings.ReplaceAll(own, "users/frida", "users/gus#me")
		r.Body, r.AllowKeyOfOther = &text, true
	}), enqueue.Queued)
	if !tenants[q.last.OrderingKey] {
		t.Errorf("the same actor with a fragment has another tenant, %q", q.last.OrderingKey)
	}
}
