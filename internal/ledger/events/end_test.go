package events

import (
	"testing"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
)

// TestALiveInboxThatAnswersGoneToADeleteIsNotReportedGone: GoToSocial answers 410 when the
// actor whose key signs the Delete is gone itself.
func TestALiveInboxThatAnswersGoneToADeleteIsNotReportedGone(t *testing.T) {
	for _, c := range []struct {
		activityType string
		status       int
		want         Kind
	}{
		{"Delete", 410, RecipientFailed},
		{"Delete", 404, RecipientFailed},
		{"Create", 410, RecipientGone},
		{"Undo", 404, RecipientGone},
		{"Create", 422, RecipientFailed},
	} {
		e, ok := EndOf("01", About{Type: c.activityType}, ledger.Recipient{Target: activity.Target{Inbox: "https://a.example/inbox"}, State: activity.Failed, LastStatus: c.status})
		if !ok || e.Kind != c.want {
			t.Errorf("a %s answered with %d is told as %q (%t), want %q", c.activityType, c.status, e.Kind, ok, c.want)
		}
	}
}
