package sipher_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/peers"
)

var spellings = []string{urlB, "https://B.example", "https://b.example/", "https://b.example:443", "https://B.EXAMPLE:0443/", "https://b.example.", "https://ｂ.example"}

// The protocol's servers compare URLs as text. fedpost writes every URL in one
// canonical form first, so that no spelling evades a block or is a second server.
func TestABlockHoldsForEverySpellingOfTheServerURL(t *testing.T) {
	for _, url := range spellings {
		b := newBed(t)
		b.acquainted(b.b)
		block(b, urlB)
		a := followJob()
		a.ServerURL = url
		t.Log(url)
		want{class: outcome.Refused, unattempted: true, discard: true, says: "block list: spam"}.check(t, b.attempt(a, 1))
		if got := b.net.Asked(); len(got) > 0 {
			t.Errorf("asked %v", got)
		}
	}
}

func TestEverySpellingOfAServerURLIsOneServer(t *testing.T) {
	b := newBed(t)
	for i, url := range spellings {
		a := postJob()
		a.ServerURL, a.Body = url, strings.Replace(postPayload, `"p1"`, fmt.Sprintf(`"p%d"`, i), 1)
		delivered.check(t, b.attempt(a, 1))
	}
	all, err := b.store.Servers(t.Context())
	if err != nil || len(all) != 1 || all[0].URL != urlB {
		t.Errorf("servers %+v, error %v; want only %s", all, err, urlB)
	}
	if got := b.b.Sequence(); len(got) != 2+len(spellings) {
		t.Errorf("B saw %v", got)
	}
}

// The payload is sent as it stands, so its spelling of the server stays; its
// follow is found all the same.
func TestAFollowIsFoundUnderEverySpellingOfItsServer(t *testing.T) {
	for _, url := range spellings {
		b := newBed(t)
		b.acquainted(b.b)
		a := job("deliver-follow", strings.Replace(followPayload, `"https://b.example"`, `"`+url+`"`, 1))
		accepted.check(t, b.attempt(a, 1))
		if got := b.b.Deliveries(); len(got) != 1 || got[0].Plaintext != a.Body {
			t.Errorf("B got the deliveries %+v, want one of %s", got, a.Body)
		}
	}
}

func TestAServerIsNoProxyOfItselfAndNoPeerOfItselfHoweverItsOriginIsWritten(t *testing.T) {
	b := newBed(t, func(c *sipher.Config) { c.Identity.Origin = "https://A.example:443" })
	b.blockedFromUs(notFound)
	b.insert(b.a, func(*peers.Server) {})
	b.attempt(postJob(), 1)
	if asked := b.net.Asked(); slices.ContainsFunc(asked, func(s string) bool { return strings.Contains(s, "a.example") }) {
		t.Errorf("asked %v", asked)
	}
	if got := b.listed(); len(got) != 0 {
		t.Errorf("listed %v", got)
	}
	if w := b.ask("POST", b.registrationOf(b.a)); w.Code != 400 || !strings.Contains(w.Body.String(), "this server itself") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
