package activitypub_test

import (
	"net/http"
	"testing"
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
