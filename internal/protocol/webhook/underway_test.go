package webhook_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/webhook"
)

// TestADeletedWebhookGetsNoWaitingRequest: while an endpoint is slow, prepared requests wait.
// When an operator deletes a webhook, moves it or replaces its secret, that applies to these, too.
func TestADeletedWebhookGetsNoWaitingRequest(t *testing.T) {
	b := newBed(t, true)
	told := 0
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { told++ }))
	defer endpoint.Close()
	for name, change := range map[string]func(){
		"deleted": func() {
			if err := b.store.DeleteWebhook(t.Context(), "one"); err != nil {
				t.Fatal(err)
			}
		},
		"moved": func() { b.put("one", webhook.Settings{URL: "https://new.example/"}) },
	} {
		b.put("one", webhook.Settings{URL: endpoint.URL + "/"})
		b.happens(1, "recipient.gone", "{}")
		waits := b.pump()[0]
		attempt := b.sender.Prepare(t.Context(), waits.Activity)
		change()
		o := attempt(t.Context(), activity.Target{Inbox: waits.URL}, 1)
		if o.Class != outcome.Refused || o.Try != outcome.Untried || told > 0 {
			t.Errorf("%s: %+v, told %d times", name, o, told)
		}
	}
}
