package operator_test

import (
	"net/url"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/activity"
)

// TestACancelledActivityIsGoneForCallersWhenOthersAre: its mark outlives its record, for workers.
// Callers no longer see it, like any other activity.
func TestACancelledActivityIsGoneForCallersWhenOthersAre(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/v1/keys", `{"id":"`+frida+`#main-key","type":"ed25519"}`, new(client.Key))
	const own, twin = "https://social.example/notes/1", "https://social.example/notes/2"
	cancelled, other := w.hand(own, frida, ""), w.hand(twin, frida, "")
	w.must("POST", "/v1/activities/"+cancelled+"/cancel", "", new(client.Cancelled))
	r, err := w.store.Activity(t.Context(), activity.ID(cancelled))
	if err != nil {
		t.Fatal(err)
	}
	for _, past := range []time.Duration{0, time.Millisecond, 100 * 24 * time.Hour, 399 * 24 * time.Hour, 401 * 24 * time.Hour} {
		w.clock = r.Forget.Add(past)
		for _, call := range []struct{ method, path, body string }{
			{"GET", "", ""},
			{"POST", "/cancel", ""},
			{"POST", "/retry", `{}`},
			{"DELETE", "", ""},
		} {
			got, want := w.do(call.method, "/v1/activities/"+cancelled+call.path, call.body), w.do(call.method, "/v1/activities/"+other+call.path, call.body)
			if got.status != want.status || got.status != 404 {
				t.Errorf("%v past its end, %s %s: %d %s, of one not cancelled %d", past, call.method, call.path, got.status, got.body, want.status)
			}
		}
		for _, q := range []url.Values{{}, {"activityId": {own}}, {"actor": {frida}}, {"state": {"cancelled"}}} {
			if ids, _ := w.found(q); len(ids) != 0 {
				t.Errorf("%v past its end, listed by %v: %v", past, q, ids)
			}
		}
	}
}
