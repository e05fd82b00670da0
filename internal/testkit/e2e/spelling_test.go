package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/fediverse"
)

// spellings sends to inboxes that are not written as fedpost posts to them. Callers find their
// own rows by what they wrote; the canonical form is beside it.
func spellings(t *testing.T, w *World) {
	r := w.Remote()
	r.Always(fediverse.Status(410))
	// The same inbox comes in two spellings: the first one names it.
	loud := strings.Replace(r.URL("/plain"), "http://", "HTTP://", 1)
	inboxes := []string{loud, r.URL("/plain"), r.URL("/same"), r.URL("/a/../dots"), r.URL("/users/zoë/inbox"), r.URL("/query?")}
	want := map[string]string{ // canonical forms, by what is written
		loud: r.URL("/plain"), inboxes[2]: "", inboxes[3]: r.URL("/dots"), inboxes[4]: r.URL("/users/zo%C3%AB/inbox"), inboxes[5]: r.URL("/query"),
	}
	id := w.Accept(client.Submission{Activity: json.RawMessage(note("spelling")), Recipients: client.To(inboxes...), AllowKeyOfOther: true}).ID
	status := w.Ends(id, map[string]int{"failed": len(want)})
	for written, canonical := range want {
		if got := recipient(t, status, written); got.CanonicalInbox != canonical {
			t.Errorf("%s: canonicalInbox %q, want %q", written, got.CanonicalInbox, canonical)
		}
	}
	told := map[string]string{}
	Await(t, w.Patience(time.Minute), "events of "+id, func() (bool, string) {
		page, err := w.EventPage(t.Context(), client.EventQuery{Limit: 1000})
		if err != nil {
			return false, err.Error()
		}
		for _, e := range page.Events {
			told[e.Inbox] = e.CanonicalInbox
		}
		return len(told) >= len(want), "fewer events"
	})
	for written, canonical := range want {
		if got, ok := told[written]; !ok || got != canonical {
			t.Errorf("event of %s: canonicalInbox %q (told: %t), want %q", written, got, ok, canonical)
		}
	}
}
