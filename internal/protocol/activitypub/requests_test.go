package activitypub_test

import (
	"crypto"
	"errors"
	"io"
	"net/http"
	"testing"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/testkit/fediverse"
)

// TestEachRequestOfAnAttemptIsCounted: a host that accepts nothing has a budget of requests,
// which expects three of an attempt at most.
func TestEachRequestOfAnAttemptIsCounted(t *testing.T) {
	const moved, hangsUp = http.StatusTemporaryRedirect, -1
	for _, answers := range [][]int{
		{500},
		{401, 401, 401},
		{moved, 500},
		{moved, 401, 401},
		{401, moved, 401},
		{401, 401, moved},
		{401, hangsUp},
		{401, 401, hangsUp},
		{moved, hangsUp},
	} {
		w, posts := newWorld(t), 0
		w.network.Add("social.example", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if posts++; posts > len(answers) {
				t.Errorf("%v: another request", answers)
			}
			switch status := answers[min(posts, len(answers))-1]; status {
			case hangsUp:
				panic(http.ErrAbortHandler)
			case moved:
				rw.Header().Set("Location", r.URL.String())
				fallthrough
			default:
				rw.WriteHeader(status)
			}
		}))
		o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL+"?with=query"))
		if posts != len(answers) || o.Vain() != posts {
			t.Errorf("%v: %d requests, of which %d count (%+v)", answers, posts, o.Vain(), o)
		}
	}
}

// TestARequestCountsAlthoughTheNextCouldNotBeMade: if a host answers 401 just before its time ends,
// a busy machine cannot sign again.
func TestARequestCountsAlthoughTheNextCouldNotBeMade(t *testing.T) {
	w := newWorld(t)
	w.inbox.Always(fediverse.Status(401))
	w.Keys = oneKey{&signsOnce{Signer: fediverse.NewKeys()[fediverse.RSAKeyID]}}
	o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
	if n := len(w.inbox.Posts()); n != 1 || o.Try != outcome.Untried || o.Vain() != n {
		t.Errorf("%d requests, of which %d count: %+v", n, o.Vain(), o)
	}
}

type signsOnce struct {
	crypto.Signer
	signed bool
}

func (s *signsOnce) Sign(random io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	if s.signed {
		return nil, errors.New("no time left")
	}
	s.signed = true
	return s.Signer.Sign(random, digest, o)
}
