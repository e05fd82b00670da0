package api_test

import (
	"net/http"
	"testing"

	"fedpost/internal/message"
	"fedpost/internal/queue"
)

func TestB1AnActivityIsStoredAndAnsweredAtOnce(t *testing.T) {
	w := newWorld(t).withKey()
	res := w.do("POST", "/v1/activities", submission())
	if res.Status != http.StatusAccepted {
		t.Fatalf("answered %d %s", res.Status, res.Body)
	}
	got := res.json(t)
	if got["status"] != "queued" || got["recipients"] != 2.0 {
		t.Errorf("answered %s", res.Body)
	}
	id, _ := got["id"].(string)
	if res.Header.Get("Location") != "/v1/activities/"+id {
		t.Errorf("Location is %q", res.Header.Get("Location"))
	}
	sent := w.received(queue.Normal)
	if len(sent) != 1 {
		t.Fatalf("%d messages", len(sent))
	}
	m, err := message.Decode(sent[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	if m.Activity.Body != note || string(m.Activity.ID) != id || len(m.Deliver.Targets) != 2 {
		t.Errorf("sent %+v", m.Activity)
	}
	view := w.do("GET", "/v1/activities/"+id, "").json(t)
	if view["status"] != "queued" {
		t.Errorf("view is %v", view)
	}
}
