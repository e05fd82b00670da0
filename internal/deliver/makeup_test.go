package deliver_test

import (
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/message/agenda"
	"fedpost/internal/testkit/world"
)

// TestWhoeverWorksOnAnActivityFirstRecordsIt, where the table was down when it
// was accepted.
func TestWhoeverWorksOnAnActivityFirstRecordsIt(t *testing.T) {
	onBothTypes(t, func(t *testing.T, typ queue.Type) {
		for name, n := range map[string]int{"a chunk": 2, "a fan-out": 120} {
			for _, q := range []queue.Name{queue.Normal, queue.Ordered} {
				t.Run(name+" on "+string(q), func(t *testing.T) {
					w := world.New(t, world.Options{QueueType: typ})
					a, to := w.Activity("Create"), inboxes(n)
					m := message.Message{Activity: &a, Unrecorded: &message.Unrecorded{Fingerprint: "f", Forget: w.Now().Add(time.Hour), ActivityID: "https://us.example/1", Sender: "https://us.example/frida", Actor: "https://them.example/gus"}}
					if q.Ordered() {
						a.OrderingKey = "k"
					}
					if n <= ledger.ChunkSize && !q.Ordered() {
						m.Deliver = &message.Delivery{Position: message.Whole, Targets: targets(to)}
					} else {
						m.FanOut = &message.FanOut{Targets: targets(to)}
					}
					put(t, w, q, message.Message{Batch: []message.Message{m}})
					if !q.Ordered() {
						put(t, w, q, m) // another copy
					}
					w.Run(time.Minute, time.Second)
					v, err := ledger.ViewOf(t.Context(), w.Store, a.ID, "", 200, w.Now())
					if err != nil || v.Status != ledger.StatusDone || v.Counts[activity.Delivered] != n || len(v.Recipients) != n {
						t.Fatalf("%s %v, %d listed, %v", v.Status, v.Counts, len(v.Recipients), err)
					}
					r, err := w.Store.Activity(t.Context(), a.ID)
					if err != nil || r.Fingerprint != "f" || r.Recipients != n || !r.CreatedAt.Equal(a.CreatedAt) || r.Type != "Create" {
						t.Errorf("record %+v, %v", r, err)
					}
					for _, s := range []ledger.Sought{{ActivityID: "https://us.example/1"}, {Sender: "https://us.example/frida"}} {
						ls, _, err := w.Store.FindActivities(t.Context(), s, "", 10)
						if err != nil || len(ls) != 1 || ls[0].ID != a.ID || ls[0].Actor != "https://them.example/gus" || ls[0].Type != "Create" {
							t.Errorf("%+v finds %+v, %v", s, ls, err)
						}
					}
					expectOnce(t, w, a.ID, to)
					w.Quiet()
				})
			}
		}
	})
}

// TestAnotherRequestUnderAKeyIsAnActivityOfItsOwn: two requests were accepted under a key
// while the table was down, so both have the id that stands for the key. The second to
// come gets another id, and each is delivered and shown. Only the first had been.
func TestAnotherRequestUnderAKeyIsAnActivityOfItsOwn(t *testing.T) {
	for name, n := range map[string]int{"chunks": 2, "fan-outs": 120} {
		for _, q := range []queue.Name{queue.Normal, queue.Ordered} {
			for _, batch := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " on ", q, ", in a batch: ", batch), func(t *testing.T) {
					w := world.New(t, world.Options{QueueType: queue.FIFO})
					a := w.Activity("Create")
					if q.Ordered() {
						a.OrderingKey = "k"
					}
					all := inboxes(2*n + 1)
					of := map[string][]string{"one": all[:n], "two": all[n:]}
					send := func(fingerprint string) {
						m := message.Message{Activity: &a, Unrecorded: &message.Unrecorded{
							Fingerprint: fingerprint, Forget: w.Now().Add(time.Hour), Sender: "https://us.example/frida", ActivityID: "https://us.example/" + fingerprint,
						}}
						if n <= ledger.ChunkSize && !q.Ordered() {
							m.Deliver = &message.Delivery{Position: message.Whole, Targets: targets(of[fingerprint])}
						} else {
							m.FanOut = &message.FanOut{Targets: targets(of[fingerprint])}
						}
						if batch {
							m = message.Message{Batch: []message.Message{m}}
						}
						put(t, w, q, m)
					}
					send("one")
					w.Work()
					send("two")
					send("two") // another copy
					w.Run(time.Minute, time.Second)
					ids := map[string]bool{}
					for fingerprint, to := range of {
						ls, _, err := w.Store.FindActivities(t.Context(), ledger.Sought{ActivityID: "https://us.example/" + fingerprint}, "", 10)
						if err != nil {
							t.Fatal(err)
						}
						shown := 0
						for _, l := range ls {
							r, err := w.Store.Activity(t.Context(), l.ID)
							if err != nil {
								t.Fatal(err)
							}
							if r.Fingerprint != fingerprint {
								continue
							}
							shown++
							ids[string(l.ID)] = true
							v, err := ledger.ViewOf(t.Context(), w.Store, l.ID, "", 200, w.Now())
							if err != nil || v.Status != ledger.StatusDone || v.Counts[activity.Delivered] != len(to) {
								t.Errorf("%s: %s %v, %v", fingerprint, v.Status, v.Counts, err)
							}
							expectOnce(t, w, l.ID, to)
						}
						if shown != 1 {
							t.Errorf("%s is found %d times", fingerprint, shown)
						}
					}
					if len(ids) != 2 || !ids[string(a.ID)] {
						t.Errorf("ids %v, one of them to be %s", ids, a.ID)
					}
					w.Quiet()
				})
			}
		}
	}
}

// TestWorkThatMayNotBeginGoesToTheAgenda, which could not be written when the
// activity was accepted.
func TestWorkThatMayNotBeginGoesToTheAgenda(t *testing.T) {
	onBothTypes(t, func(t *testing.T, typ queue.Type) {
		for _, q := range []queue.Name{queue.Normal, queue.Ordered} {
			t.Run(string(q), func(t *testing.T) {
				w := world.New(t, world.Options{QueueType: typ})
				a, due := w.Activity("Create"), w.Now().Add(time.Hour)
				if q.Ordered() {
					a.OrderingKey = "k"
				}
				m := message.Message{
					Activity: &a, FanOut: &message.FanOut{Targets: targets(inboxes(2))}, NotBefore: due,
					Unrecorded: &message.Unrecorded{DueAt: due, Forget: due.Add(time.Hour)},
				}
				put(t, w, q, m)
				w.Work()
				if n := len(w.Servers.Got()); n > 0 {
					t.Fatalf("%d requests before it was due", n)
				}
				release := agenda.Releaser{Store: w.Store, Queues: map[queue.Name]queue.Sender{q: w.Engine.Queue(q)}, Log: w.Config().Log}
				if n, err := release.Release(t.Context(), due.Add(-time.Second)); n != 0 || err != nil {
					t.Fatalf("released %d early, %v", n, err)
				}
				w.Clock.Advance(time.Hour)
				if n, err := release.Release(t.Context(), w.Now()); n != 1 || err != nil {
					t.Fatalf("released %d, %v", n, err)
				}
				w.Run(time.Minute, time.Second)
				expectOnce(t, w, a.ID, inboxes(2))
				if r, err := w.Store.Activity(t.Context(), a.ID); err != nil || !r.DueAt.Equal(due) {
					t.Errorf("record %+v, %v", r, err)
				}
			})
		}
	})
}

// TestTheRestOfABatchSaysWhatIsNotRecordedYet: the time of an invocation ends
// before the last activity of a batch that was accepted while the table was down.
func TestTheRestOfABatchSaysWhatIsNotRecordedYet(t *testing.T) {
	onBothTypes(t, func(t *testing.T, typ queue.Type) {
		w := slowWorld(t, typ)
		to, batch := inboxes(ledger.ChunkSize+1), message.Message{}
		for range 4 {
			a := w.Activity("Create")
			batch.Batch = append(batch.Batch, versioned(message.Message{
				Activity: &a, FanOut: &message.FanOut{Targets: targets(to)},
				Unrecorded: &message.Unrecorded{Fingerprint: "f", Forget: w.Now().Add(time.Hour)},
			}))
		}
		put(t, w, queue.Normal, batch)
		w.Work()
		for i, m := range batch.Batch {
			expectOnce(t, w, m.Activity.ID, to)
			v, err := ledger.ViewOf(t.Context(), w.Store, m.Activity.ID, "", 200, w.Now())
			if err != nil || v.Status != ledger.StatusDone || v.Counts[activity.Delivered] != len(to) {
				t.Errorf("activity %d: %s %v, %v", i, v.Status, v.Counts, err)
			}
		}
		w.Quiet()
	})
}

// TestWhoGivesUpAMessageRecordsItsActivity: the table was down when the activity was
// accepted, and every process that worked on the message died. The activity was unknown
// then, although its recipients had been given up.
func TestWhoGivesUpAMessageRecordsItsActivity(t *testing.T) {
	for name, n := range map[string]int{"a chunk": 2, "a fan-out": 120} {
		for _, batch := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", in a batch: ", batch), func(t *testing.T) {
				w := world.New(t, world.Options{})
				a, to := w.Activity("Create"), inboxes(n)
				m := message.Message{Activity: &a, Unrecorded: &message.Unrecorded{Forget: w.Now().Add(72 * time.Hour)}}
				if n <= ledger.ChunkSize {
					m.Deliver = &message.Delivery{Position: message.Whole, Targets: targets(to)}
				} else {
					m.FanOut = &message.FanOut{Targets: targets(to)}
				}
				if batch {
					m = message.Message{Batch: []message.Message{m}}
				}
				put(t, w, queue.Normal, m)
				q := w.Engine.Queue(queue.Normal)
				for range topology.Of(queue.Normal).MaxReceives - 1 {
					if got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 1}); err != nil || len(got) != 1 {
						t.Fatalf("%d received, %v", len(got), err)
					}
					w.Clock.Advance(topology.Of(queue.Normal).Visibility) // the process dies
				}
				w.Work()
				v, err := ledger.ViewOf(t.Context(), w.Store, a.ID, "", 200, w.Now())
				if err != nil || v.Status != ledger.StatusDone || v.Counts[activity.Dead] != n {
					t.Errorf("%s %v, %v", v.Status, v.Counts, err)
				}
			})
		}
	}
}
