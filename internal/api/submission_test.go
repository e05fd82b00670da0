package api

import (
	"encoding/json"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
)

func TestAStatusIsOfTheWireShape(t *testing.T) {
	const id = "01M7YQZXC038A60FQ34D193H4C"
	for want, v := range map[string]ledger.View{
		`{"id":"` + id + `","status":"delivering","counts":{"retrying":1},` +
			`"recipients":[{"inbox":"https://h0.example/inbox","state":"retrying","attempts":1,"lastStatus":503,"lastError":"busy","nextAttemptAt":"2026-11-21T12:00:00Z"}]}`: {
			ID: id, Status: ledger.StatusDelivering, Counts: map[activity.State]int{activity.Retrying: 1},
			Recipients: []ledger.RecipientView{{
				Inbox: "https://h0.example/inbox", State: activity.Retrying, Attempts: 1, LastStatus: 503, LastError: "busy",
				NextAttemptAt: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
			}},
		},
		`{"id":"` + id + `","status":"done","counts":{},"recipients":[]}`: {ID: id, Status: ledger.StatusDone},
	} {
		got, err := json.Marshal(statusOf(v))
		if err != nil || string(got) != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	}
}
