package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/fediverse"
)

func submission(body, key string, recipients ...string) client.Submission {
	return client.Submission{Activity: json.RawMessage(body), Recipients: client.To(recipients...), KeyID: key, AllowKeyOfOther: true}
}

func escape(id string) string { return url.PathEscape(id) }

// sharedInbox sends to recipients who share an inbox, and to some twice.
func sharedInbox(t *testing.T, w *World) {
	one, other := w.Remote(), w.Remote()
	shared := func(n int) client.Recipient {
		return client.Recipient{Inbox: one.URL(fmt.Sprintf("/users/%d/inbox", n)), SharedInbox: one.URL("/inbox")}
	}
	alone, twice := other.URL("/users/a/inbox"), other.URL("/users/b/inbox")
	s := submission(note("shared"), "", alone, twice, twice)
	s.Recipients = append(s.Recipients, shared(1), shared(2), shared(3), shared(2))
	id := w.Accept(s).ID
	w.Ends(id, map[string]int{"delivered": 5})
	accepted(t, one, noteID("shared"))
	if got := one.Posts()[0].URL; got != one.Host+"/inbox" {
		t.Errorf("sent to %s", got)
	}
	if n := len(other.Posts()); n != 2 {
		t.Errorf("the two inboxes that share nothing got %d POSTs", n)
	}
	if n := len(w.Everyone(id)); n != 3 {
		t.Errorf("%d inboxes are listed, want 3", n)
	}

	// Headers of the activity and of a recipient come along, also on a later try.
	later := w.Remote()
	later.Then(fediverse.Status(503))
	s = submission(note("headers"), "", other.URL("/users/c/inbox"))
	s.Headers = []client.Header{{Name: "X-All", Value: "1"}}
	s.Recipients = append(s.Recipients, client.Recipient{Inbox: later.URL("/inbox"), Headers: []client.Header{{Name: "collection-synchronization", Value: `digest="00"`, Sign: true}}})
	id = w.Accept(s).ID
	w.Ends(id, map[string]int{"delivered": 2})
	for _, r := range w.Everyone(id) {
		tries := r.LastAttempts
		if r.Attempts == 1 && len(tries) > 0 || r.Attempts == 2 && (len(tries) != 2 || tries[0].Status != 503 || tries[0].Form != "cavage" || tries[0].At.IsZero() || tries[1].Status != 202) {
			t.Errorf("%s shows its attempts as %+v", r.Inbox, tries)
		}
	}
	for _, p := range later.Posts() {
		if p.Refused != nil || p.Header.Get("X-All") != "1" || p.Header.Get("Collection-Synchronization") != `digest="00"` || !strings.Contains(p.Header.Get("Signature"), "collection-synchronization") {
			t.Errorf("sent with %v, refused: %v", p.Header, p.Refused)
		}
	}
	if ps := other.Posts(); len(later.Posts()) != 2 || ps[len(ps)-1].Header.Get("X-All") != "1" || ps[len(ps)-1].Header.Get("Collection-Synchronization") != "" {
		t.Errorf("%d tries, and the other got %v", len(later.Posts()), ps[len(ps)-1].Header)
	}

	every := false
	s = submission(note("each"), "")
	s.Recipients = []client.Recipient{shared(1), shared(2)}
	s.PreferSharedInbox = &every
	w.Ends(w.Accept(s).ID, map[string]int{"delivered": 2})
	if n := len(one.Posts()); n != 3 {
		t.Errorf("with preferSharedInbox false %d more POSTs came, want 2", n-1)
	}
}

// fanOut sends to more recipients than one message holds. It is signed with an Ed25519 key,
// which takes a twentieth of the time of RSA.
func fanOut(t *testing.T, w *World) {
	const servers, each = 5, 200
	w.AddKey(fediverse.Ed25519KeyID, PrivatePEM(t, fediverse.Ed25519KeyID))
	var remotes []*Remote
	var all []string
	for range servers {
		r := w.Remote()
		remotes = append(remotes, r)
		all = append(all, r.URLs(each)...)
	}
	id := w.Accept(submission(note("fan-out"), fediverse.Ed25519KeyID, all...)).ID
	w.EndsWithin(5*time.Minute, id, map[string]int{"delivered": servers * each})
	for _, r := range remotes {
		inboxes := map[string]int{}
		for _, p := range r.Accepted() {
			inboxes[p.URL]++
		}
		if len(inboxes) != each || len(r.Posts()) != each {
			t.Errorf("%s: %d POSTs to %d inboxes, want %d", r.Host, len(r.Posts()), len(inboxes), each)
		}
	}
	listed := map[string]bool{}
	for _, r := range w.Everyone(id) {
		listed[r.Inbox] = true
		if r.State != "delivered" || r.Attempts != 1 {
			t.Errorf("recipient %+v", r)
		}
	}
	for _, inbox := range all {
		if !listed[inbox] {
			t.Errorf("%s is not listed", inbox)
		}
	}
}
