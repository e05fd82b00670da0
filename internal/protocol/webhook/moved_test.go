package webhook_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/webhook"
)

// TestAWebhookThatWasMovedSendsItsFormerAddressNothing: not what waits, nor after it was
// deleted and made again.
func TestAWebhookThatWasMovedSendsItsFormerAddressNothing(t *testing.T) {
	b := newBed(t, true)
	told := 0
	former := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { told++ }))
	defer former.Close()
	b.put("one", webhook.Settings{URL: former.URL + "/"})
	b.happens(1, "recipient.gone", "{}")
	waits := b.pump()[0]
	b.put("one", webhook.Settings{URL: "https://new.example/", Rotate: true})
	if o := b.try(waits); o.Class != outcome.Refused || o.Try != outcome.Untried {
		t.Errorf("moved: %+v", o)
	}
	if err := b.store.DeleteWebhook(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	b.put("one", webhook.Settings{URL: "https://new.example/"})
	if o := b.try(waits); o.Class != outcome.Refused || told > 0 {
		t.Errorf("made again: %+v, told %d times", o, told)
	}
}
