package activitypub_test

import (
	"net/http"
	"strings"
	"testing"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/httpsign"
	"fedpost/internal/testkit/fediverse"
)

func encoded(hs ...activity.Header) activity.Headers { return activity.NewHeaders(hs) }

// TestHeadersOfTheCallerAreSentAndSignedWhereAskedFor, in each form: the inbox verifies
// with libraries that fedpost does not sign with.
func TestHeadersOfTheCallerAreSentAndSignedWhereAskedFor(t *testing.T) {
	const sync = `collectionId="https://us.example/f", url="https://us.example/s", digest="00ff"`
	for _, form := range []httpsign.Form{httpsign.Cavage, httpsign.RFC9421, httpsign.CavagePath} {
		w := newWorld(t)
		w.inbox.Takes(form)
		a := note(`{"id":"x"}`)
		a.Headers = encoded(activity.Header{Name: "X-Mine", Value: "of the activity"}, activity.Header{Name: "X-Both", Value: "of the activity", Sign: true}, activity.Header{Name: "User-Agent", Value: "us/1 (+https://us.example/)", Sign: true})
		target := to(inboxURL + "?user=1")
		target.Headers = encoded(activity.Header{Name: "Collection-Synchronization", Value: sync, Sign: true}, activity.Header{Name: "X-Both", Value: "of the recipient"})
		if o := w.Attempt(t.Context(), a, target); o.Class != outcome.Delivered {
			t.Fatalf("%s: %+v", form, o)
		}
		posts := w.inbox.Posts()
		last := posts[len(posts)-1]
		if last.Form != form {
			t.Errorf("%s: the last is of form %s", form, last.Form)
		}
		for name, want := range map[string]string{"X-Mine": "of the activity", "X-Both": "of the recipient", "Collection-Synchronization": sync, "User-Agent": "us/1 (+https://us.example/)"} {
			if got := last.Header.Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s is %q, want %q", form, name, got, want)
			}
		}
		covered := last.Header.Get("Signature") + last.Header.Get("Signature-Input")
		if !strings.Contains(covered, "collection-synchronization") || !strings.Contains(covered, "user-agent") || strings.Contains(covered, "x-mine") || strings.Contains(covered, "x-both") {
			t.Errorf("%s: covered is %s", form, covered)
		}
	}
}

// TestASignedHeaderThatChangesOnTheWayBreaksTheSignature.
func TestASignedHeaderThatChangesOnTheWayBreaksTheSignature(t *testing.T) {
	for _, form := range []httpsign.Form{httpsign.Cavage, httpsign.RFC9421} {
		w := newWorld(t)
		w.inbox.Takes(form)
		a := note(`{"id":"x"}`)
		a.Headers = encoded(activity.Header{Name: "X-Signed", Value: "1", Sign: true})
		if o := w.Attempt(t.Context(), a, to(inboxURL)); o.Class != outcome.Delivered {
			t.Fatalf("the outcome is %+v, want delivered", o)
		}
		posts := w.inbox.Posts()
		p := posts[len(posts)-1]
		again := func(value string) error {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+p.URL, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = p.Header.Clone()
			r.Header.Set("X-Signed", value)
			return fediverse.NewInbox(fediverse.NewKeys().Public()).Verify(r, []byte(p.Body))
		}
		if err := again("1"); err != nil {
			t.Fatalf("%s: as it came: %v", form, err)
		}
		if err := again("2"); err == nil {
			t.Errorf("%s: another value verifies", form)
		}
	}
}
