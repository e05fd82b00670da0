package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/fediverse"
)

// metadata sends an object of the caller's, which is returned with the state of the activity and
// its events, and goes to nobody else.
func metadata(t *testing.T, w *World) {
	const own = `{"row":1207,"note":"<ü>"}`
	accepts, gone := w.Remote(), w.Remote()
	gone.Always(fediverse.Status(410))
	id := w.Accept(client.Submission{
		Activity: json.RawMessage(note("metadata")), Recipients: client.To(accepts.URL("/inbox"), gone.URL("/inbox")), AllowKeyOfOther: true,
		Metadata: json.RawMessage(`{"row": 1207, "note": "<ü>"}`), Notify: true,
	}).ID
	status := w.Ends(id, map[string]int{"delivered": 1, "failed": 1})
	if got := string(status.Metadata); got != own {
		t.Errorf("metadata of the activity: %s, want %s", got, own)
	}
	found := 0
	for a, err := range w.Activities(t.Context(), client.ActivityQuery{ActivityID: noteID("metadata")}) {
		if found++; err != nil || string(a.Metadata) != own {
			t.Errorf("metadata in the list: %s, %v, want %s", a.Metadata, err, own)
		}
	}
	if found != 1 {
		t.Errorf("%d activities are found, want 1", found)
	}
	missing := map[string]bool{client.RecipientGone: true, client.ActivityDone: true}
	Await(t, w.Patience(time.Minute), "events of "+id, func() (bool, string) {
		page, err := w.EventPage(t.Context(), client.EventQuery{Limit: 1000})
		if err != nil {
			return false, err.Error()
		}
		for _, e := range page.Events {
			if e.ActivityID != id {
				continue
			}
			delete(missing, e.Type)
			if string(e.Metadata) != own || e.Activity == nil || e.Activity.ID != noteID("metadata") {
				t.Errorf("event %s: metadata %s of %+v, want %s", e.Type, e.Metadata, e.Activity, own)
			}
		}
		return len(missing) == 0 || t.Failed(), "missing"
	})
	for _, p := range accepts.Posts() {
		if strings.Contains(p.Body, "1207") || p.Refused != nil {
			t.Errorf("the server got %q, refused: %v", p.Body, p.Refused)
		}
	}
}
