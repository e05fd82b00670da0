package operator_test

import (
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/app"
)

// TestActivitiesOfAnActorTypeAndTimeAreCancelledTogether: those that do not match or are finished
// stay as they are. A second request finds nothing left.
func TestActivitiesOfAnActorTypeAndTimeAreCancelledTogether(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/v1/keys", `{"id":"`+frida+`#main-key","type":"ed25519"}`, new(client.Key))
	var old []string
	for n := range 3 {
		old = append(old, w.hand(fmt.Sprintf("https://social.example/notes/%d", n), frida, ""))
	}
	over := w.hand("https://social.example/notes/over", frida, "")
	w.must("POST", "/v1/activities/"+over+"/cancel", "", new(client.Cancelled))
	forwarded := w.hand("https://other.example/1", "https://other.example/users/gus", `,"allowKeyOfOther":true`)
	w.clock = w.clock.Add(24 * time.Hour)
	late := w.hand("https://social.example/notes/late", frida, "")
	status := func(id string) string {
		t.Helper()
		var s client.Status
		w.must("GET", "/v1/activities/"+id, "", &s)
		return s.Status
	}
	cancel := func(body string, want client.CancelledActivities) {
		t.Helper()
		var got client.CancelledActivities
		w.must("POST", "/v1/activities/cancel", body, &got)
		got.Reached = time.Time{}
		if got != want {
			t.Errorf("%s: %+v, want %+v", body, got, want)
		}
	}
	cancel(`{"actor":"`+frida+`","type":"Delete"}`, client.CancelledActivities{})
	cancel(`{"actor":"https://social.example/users/nobody"}`, client.CancelledActivities{})
	until := w.clock.Add(-time.Hour).Format(time.RFC3339)
	cancel(`{"actor":"`+frida+`","type":"Create","until":"`+until+`"}`, client.CancelledActivities{Cancelled: 4, Over: 1})
	for _, id := range append(old, forwarded) { // a forwarded activity is its key's owner's
		if got := status(id); got != "cancelled" {
			t.Errorf("%s is %s, want it cancelled", id, got)
		}
	}
	if got := status(late); got != "queued" {
		t.Errorf("what was handed over later is %s, want it queued", got)
	}
	cancel(`{"actor":"`+frida+`"}`, client.CancelledActivities{Cancelled: 1, Over: 5})
	cancel(`{"actor":"`+frida+`"}`, client.CancelledActivities{Over: 6})
}

// TestActivitiesOfAnActorAreCancelledWhoeverSignedThem: relays and keys of an instance sign for others.
func TestActivitiesOfAnActorAreCancelledWhoeverSignedThem(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/v1/keys", `{"id":"`+frida+`#main-key","type":"ed25519"}`, new(client.Key))
	const gus = "https://other.example/users/gus"
	forwarded := w.hand("https://other.example/1", gus, `,"allowKeyOfOther":true`)
	own := w.hand("https://social.example/notes/1", frida, "")
	var got client.CancelledActivities
	w.must("POST", "/v1/activities/cancel", `{"actor":"`+gus+`"}`, &got)
	if got.Cancelled != 1 {
		t.Errorf("%+v, want one cancelled", got)
	}
	for id, want := range map[string]string{forwarded: "cancelled", own: "queued"} {
		var s client.Status
		if w.must("GET", "/v1/activities/"+id, "", &s); s.Status != want {
			t.Errorf("%s is %s, want it %s", id, s.Status, want)
		}
	}
}

// TestCancellingManyGoesOnByItsCursor: after 15 seconds by the clock a call ends.
func TestCancellingManyGoesOnByItsCursor(t *testing.T) {
	var reads atomic.Int64 // of the clock, each of which takes a while
	w := newWorld(t, func(p *app.Ports) {
		p.Now = func() time.Time { return start.Add(time.Duration(reads.Add(1)) * 200 * time.Millisecond) }
	})
	w.must("POST", "/v1/keys", `{"id":"`+frida+`#main-key","type":"ed25519"}`, new(client.Key))
	for n := range 205 {
		w.hand(fmt.Sprintf("https://social.example/notes/%d", n), frida, "")
	}
	var first, rest client.CancelledActivities
	w.must("POST", "/v1/activities/cancel", `{"actor":"`+frida+`"}`, &first)
	if first.NextCursor == "" || first.Cancelled == 0 || first.Cancelled == 205 {
		t.Fatalf("the first call: %+v, want a part and a cursor", first)
	}
	for cursor := first.NextCursor; cursor != ""; cursor = rest.NextCursor {
		n := rest.Cancelled
		w.must("POST", "/v1/activities/cancel", `{"actor":"`+frida+`","cursor":"`+cursor+`"}`, &rest)
		rest.Cancelled += n
	}
	if first.Cancelled+rest.Cancelled != 205 {
		t.Errorf("%d and %d are cancelled, want 205", first.Cancelled, rest.Cancelled)
	}
	if _, all := w.found(url.Values{"actor": {frida}, "state": {"queued"}}); len(all) != 0 {
		t.Errorf("%d are queued still", len(all))
	}
}

func TestWhatIsWrongWithACancellationIsSaid(t *testing.T) {
	w := newWorld(t)
	for body, says := range map[string]string{
		`{}`:                               "all activities would be cancelled",
		`{"host":"a.example"}`:             "not a field",
		`{"actor":"a","cursor":"x"}`:       "nextCursor",
		`{"since":"2020-01-01T00:00:00Z"}`: "60 days",
		`{"type":""}`:                      "empty",
	} {
		w.refused(http.StatusBadRequest, says, "POST", "/v1/activities/cancel", body)
	}
}
