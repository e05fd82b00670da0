package webhook_test

import (
	"testing"

	"fedpost/internal/activity"
	"fedpost/internal/protocol/webhook"
)

// TestRequestsToWebhooksAreNotFoundByGuessing: a caller knows its own activities, from which the
// ids of events follow. It must not be able to find, cancel or forget the requests to the
// operator's webhooks.
func TestRequestsToWebhooksAreNotFoundByGuessing(t *testing.T) {
	b := newBed(t, true)
	b.put("one", webhook.Settings{URL: "https://a.example/"})
	b.happens(1, "recipient.gone", "{}")
	if s := b.pump()[0]; s.Activity.ID == activity.DerivedID(b.feed[0].Time, "webhook one "+b.feed[0].ID) {
		t.Error("the id follows from what a sender knows")
	}
}
