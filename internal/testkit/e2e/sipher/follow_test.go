package sipher_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/protocol/sipher/follow"
	"fedpost/internal/testkit/sipherpeer"
)

func TestTheLocalFollowIsThereBeforeTheDeliveryAndShowsItsAcknowledgement(t *testing.T) {
	for _, c := range []struct {
		accepted                   string
		isAccepted, isAcknowledged bool
	}{{"true", true, false}, {"false", false, true}, {"null", false, true}, {"absent", false, true}} {
		t.Run(c.accepted, func(t *testing.T) {
			run(t, func(t *testing.T, w *world) {
				w.acquainted(w.b)
				w.b.Behave(sipherpeer.Behavior{Status: 503}, sipherpeer.Behavior{Accepted: c.accepted})
				id := w.send(followJob())
				want := follow.Follow{
					ID: "f1", FollowerID: "alice", FollowingID: "bob", FollowerServerURL: urlB, CreatedAt: "2026-05-06T14:17:40.000Z",
				}
				if got := w.follows(); len(got) != 1 || plain(got[0]) != want {
					t.Errorf("when the job is accepted: %s", brief(got))
				}
				w.ends(id)
				want.Accepted, want.Acknowledged = c.isAccepted, c.isAcknowledged
				if got := w.follows(); len(got) != 1 || plain(got[0]) != want {
					t.Errorf("when it is delivered: %s", brief(got))
				}
			})
		})
	}
}

// plain is a follow without the times at which it was recorded.
func plain(f follow.Follow) follow.Follow {
	f.RecordedAt, f.UpdatedAt = time.Time{}, time.Time{}
	return f
}

// TestAnAckOfAnotherFollowAcceptsNeitherThroughTheWholeEngine: a server could
// otherwise accept any follow by answering to another one.
func TestAnAckOfAnotherFollowAcceptsNeitherThroughTheWholeEngine(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.acquainted(w.b)
		w.b.Behave(sipherpeer.Behavior{Form: sipherpeer.Text}, sipherpeer.Behavior{FollowerID: "carol"})
		other := followJob()
		other.Payload = strings.NewReplacer("alice", "carol", `"f1"`, `"f2"`).Replace(other.Payload)
		w.ends(w.send(other))
		if r := w.ends(w.send(followJob())); r.State != "delivered" {
			t.Errorf("recipient: %s", brief(r))
		}
		got := w.follows()
		if len(got) != 2 {
			t.Errorf("got: %s", brief(got))
		}
		for _, f := range got {
			if f.Accepted || f.Acknowledged {
				t.Errorf("changed: %s", brief(f))
			}
		}
	})
}

// TestADuplicateFollowMakesNoSecondRecordNorDelivery, by the marker's way and by
// the ordered queue's own, and leaves what the acknowledgement has set.
func TestADuplicateFollowMakesNoSecondRecordNorDelivery(t *testing.T) {
	for _, ordering := range []string{"", "alice"} {
		run(t, func(t *testing.T, w *world) {
			w.acquainted(w.b)
			s := followJob()
			s.DeduplicationKey, s.OrderingKey = "follow f1", ordering
			first, err := w.Client.Send(t.Context(), s)
			if err != nil || first.Status != "queued" {
				t.Fatalf("the first call is answered %+v, error %v; want queued", first, err)
			}
			w.ends(first.ID)
			for range 3 {
				again, err := w.Client.Send(t.Context(), s)
				if err != nil || again.Status != "duplicate" || again.ID != first.ID {
					t.Errorf("the call again is answered %+v, error %v; want a duplicate of %s", again, err, first.ID)
				}
			}
			pass(time.Minute)
			if got := w.follows(); len(got) != 1 || !got[0].Accepted {
				t.Errorf("got: %s", brief(got))
			}
			if got := w.b.Deliveries(); len(got) != 1 {
				t.Errorf("%d deliveries", len(got))
			}
		})
	}
}

// TestALateDuplicateOfAFollowKeepsTheNewerOne: the user followed, unfollowed and followed again,
// and then the first call was repeated under its key.
func TestALateDuplicateOfAFollowKeepsTheNewerOne(t *testing.T) {
	for _, ordering := range []string{"", "alice"} {
		run(t, func(t *testing.T, w *world) {
			w.acquainted(w.b)
			first := followJob()
			first.DeduplicationKey, first.OrderingKey = "follow f1", ordering
			second := followJob()
			second.Payload = strings.Replace(second.Payload, `"f1"`, `"f1 again"`, 1)
			w.ends(w.send(first))
			pass(time.Second)
			w.ends(w.send(second))
			if again, err := w.Client.Send(t.Context(), first); err != nil || again.Status != "duplicate" {
				t.Fatalf("the first call again is answered %+v, error %v; want a duplicate", again, err)
			}
			if got := w.follows(); len(got) != 1 || got[0].ID != "f1 again" {
				t.Errorf("got: %s", brief(got))
			}
		})
	}
}

func TestEveryFollowOfABatchIsRecorded(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.acquainted(w.b)
		var jobs []json.RawMessage
		for n := range 12 {
			s := followJob()
			s.Payload = strings.NewReplacer("alice", fmt.Sprint("user-", n), `"f1"`, fmt.Sprintf(`"f-%d"`, n)).Replace(s.Payload)
			b, err := json.Marshal(map[string]any{
				"protocol": s.Protocol, "job": s.Job, "serverUrl": s.ServerURL, "recipients": s.Recipients, "payload": s.Payload,
			})
			if err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, b)
		}
		body, err := json.Marshal(map[string]any{"activities": jobs})
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Activities []client.Accepted }
		if err := w.Do(t.Context(), http.MethodPost, "/v1/activities/batch", body, &answer); err != nil {
			t.Fatal(err)
		}
		if got := w.follows(); len(got) != len(jobs) {
			t.Errorf("%d follows when the batch is accepted", len(got))
		}
		for _, a := range answer.Activities {
			if r := w.ends(a.ID); r.State != "delivered" {
				t.Errorf("recipient: %s", brief(r))
			}
		}
		for _, f := range w.follows() {
			if !f.Accepted {
				t.Errorf("follow: %s", brief(f))
			}
		}
	})
}

// TestWhatIsRefusedOfASipherJobAtTheAPI: its form. The payload is checked at delivery, with an
// outcome of the table.
func TestWhatIsRefusedOfASipherJobAtTheAPI(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		for pointer, change := range map[string]func(*client.Submission){
			"/payload":      func(s *client.Submission) { s.Payload = "" },
			"/job":          func(s *client.Submission) { s.Job = "" },
			"/job ":         func(s *client.Submission) { s.Job = "two words" },
			"/serverUrl":    func(s *client.Submission) { s.ServerURL = "" },
			"/serverUrl ":   func(s *client.Submission) { s.ServerURL = "b.example" },
			"/recipients":   func(s *client.Submission) { s.Recipients = nil },
			"/recipients ":  func(s *client.Submission) { s.Recipients = append(s.Recipients, client.To(urlP)...) },
			"/keyId":        func(s *client.Submission) { s.KeyID = "https://a.example/#key" },
			"/recipients/0": func(s *client.Submission) { s.Recipients = client.To("posts") },
		} {
			s := followJob()
			change(&s)
			_, err := w.Client.Send(t.Context(), s)
			if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(pointer)) {
				t.Errorf("%s: %v", pointer, err)
			}
		}
		if got := w.follows(); len(got) != 0 {
			t.Errorf("refused jobs left follows: %s", brief(got))
		}
	})
}
