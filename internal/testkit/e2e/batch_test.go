package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"fedpost/client"
	"fedpost/internal/testkit/fediverse"
	"fedpost/internal/testkit/long"
)

type batchAnswer struct {
	Status     string            `json:"status"`
	Activities []client.Accepted `json:"activities"`
}

// batch submits several activities in one call, twice with the same key, and
// once with a fault, which refuses all.
func batch(t *testing.T, w *World) {
	r := w.Remote()
	var parts, want []string
	for n := range 12 {
		name := fmt.Sprintf("part-%d", n)
		want = append(want, noteID(name))
		parts = append(parts, fmt.Sprintf(`{"activity":%s,"keyId":%q,"recipients":[%q]}`, note(name), KeyID, r.URL("/inbox")))
	}
	many := r.URLs(long.Pick(20, 120))
	video := submission(fediverse.PeerTubeVideo(), KeyID, many...)
	big := `{"activity":` + string(video.Activity) + `,"keyId":"` + KeyID + `","allowKeyOfOther":true,"recipients":[` + quoted(many) + `]}`
	body := `{"activities":[` + strings.Join(append(parts, big), ",") + `],"deduplicationKey":"a batch"}`
	var first, again batchAnswer
	for _, answer := range []*batchAnswer{&first, &again} {
		if err := w.Do(t.Context(), http.MethodPost, "/v1/activities/batch", []byte(body), answer); err != nil {
			t.Fatal(err)
		}
	}
	if first.Status != "queued" || again.Status != "duplicate" || len(first.Activities) != 13 || fmt.Sprint(ids(first)) != fmt.Sprint(ids(again)) {
		t.Fatalf("answers %+v and %+v", first, again)
	}
	for _, a := range first.Activities {
		w.Ends(a.ID, map[string]int{"delivered": a.Recipients})
	}
	count := map[string]int{}
	for _, p := range r.Accepted() {
		count[p.ActivityID]++
		if p.ActivityID == want[0] && p.Body != note("part-0") {
			t.Errorf("body %q", p.Body)
		}
	}
	for _, id := range want {
		if count[id] != 1 {
			t.Errorf("%s came %d times", id, count[id])
		}
	}
	if n := len(r.Accepted()); n != len(want)+len(many) {
		t.Errorf("%d POSTs, want %d", n, len(want)+len(many))
	}

	before := w.Estimated()
	bad := `{"activities":[` + parts[0] + `,{"activity":{"type":"Note"},"recipients":[]}]}`
	err := w.Do(t.Context(), http.MethodPost, "/v1/activities/batch", []byte(bad), nil)
	if err == nil || !strings.Contains(err.Error(), "/activities/1/") {
		t.Errorf("a batch with a fault: %v", err)
	}
	unchanged(t, w, before)
}

func ids(b batchAnswer) []string {
	var all []string
	for _, a := range b.Activities {
		all = append(all, a.ID)
	}
	return all
}

func quoted(urls []string) string {
	var all []string
	for _, u := range urls {
		all = append(all, fmt.Sprintf("%q", u))
	}
	return strings.Join(all, ",")
}
