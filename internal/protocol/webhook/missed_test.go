package webhook_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/webhook"
)

// endpoint is a server that takes events, or fails.
type endpoint struct {
	*httptest.Server
	down bool
	got  []string
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e.down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		e.got = append(e.got, r.Header.Get("Webhook-Id"))
	}))
	t.Cleanup(e.Close)
	return e
}

// TestAWebhookThatIsEnabledAgainGetsWhatItMissed: what was handed over while it failed is refused
// while it is disabled, so it is handed over anew; and only once, although the former requests
// still wait.
func TestAWebhookThatIsEnabledAgainGetsWhatItMissed(t *testing.T) {
	b, e := newBed(t, true), newEndpoint(t)
	b.put("one", webhook.Settings{URL: e.URL + "/"})
	b.now = b.now.Add(24 * time.Hour)
	b.happens(1, "recipient.gone", "{}")
	b.try(b.pump()[0])
	b.now = b.now.Add(24 * time.Hour)
	e.down = true
	var waiting []webhook.Sending
	for range 6 {
		b.happens(1, "recipient.gone", "{}")
		waiting = append(waiting, b.pump()...)
		for _, s := range waiting {
			b.try(s)
		}
		b.now = b.now.Add(24 * time.Hour)
	}
	if b.pump(); len(b.store.told) != 1 {
		t.Fatal("not disabled")
	}
	refused, wait := waiting[:2], waiting[2:]
	for _, s := range refused {
		if o := b.try(s); o.Class != outcome.Refused {
			t.Fatalf("the outcome is %+v, want refused", o)
		}
	}
	e.down, e.got = false, nil
	b.put("one", webhook.Settings{URL: e.URL + "/"})
	anew := b.pump()
	for _, s := range append(slices.Clone(wait), anew...) {
		b.try(s)
	}
	if want := []string{"evt_1", "evt_2", "evt_3", "evt_4", "evt_5", "evt_6"}; !slices.Equal(e.got, want) {
		t.Errorf("it got %q, want %q", e.got, want)
	}
	for _, s := range anew {
		if slices.ContainsFunc(waiting, func(old webhook.Sending) bool { return old.Activity.ID == s.Activity.ID }) {
			t.Error("a request has the id of one that is over")
		}
	}
	if again := b.pump(); len(again) != 0 {
		t.Errorf("%d handed over again", len(again))
	}
}

// TestAFailingWebhookThatIsMovedGetsWhatItMissed, at its new address.
func TestAFailingWebhookThatIsMovedGetsWhatItMissed(t *testing.T) {
	b, former, now := newBed(t, true), newEndpoint(t), newEndpoint(t)
	former.down = true
	b.happens(1, "recipient.gone", "{}") // before it was made
	b.now = b.now.Add(time.Second)
	b.put("one", webhook.Settings{URL: former.URL + "/"})
	b.happens(2, "recipient.gone", "{}")
	waiting := b.pump()
	for _, s := range waiting {
		b.try(s)
	}
	b.now = b.now.Add(30 * time.Minute)
	former.down = false
	b.put("one", webhook.Settings{URL: now.URL + "/"})
	for _, s := range append(waiting, b.pump()...) {
		b.try(s)
	}
	if len(former.got) > 0 || !slices.Equal(now.got, []string{"evt_1", "evt_2"}) {
		t.Errorf("the former address got %q, the new one %q", former.got, now.got)
	}
	b.happens(1, "recipient.gone", "{}")
	for _, s := range b.pump() {
		b.try(s)
	}
	if len(now.got) != 3 {
		t.Errorf("then it got %q", now.got)
	}
}
