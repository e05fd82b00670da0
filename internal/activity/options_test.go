package activity_test

import (
	"encoding/json"
	"testing"
	"time"

	"fedpost/internal/activity"
)

// TestStoredActivitiesAreRead: as messages, parked deliveries and dead letters of all versions have them.
func TestStoredActivitiesAreRead(t *testing.T) {
	const stored = `{"id":"01J","protocol":"activitypub","body":"{}","type":"Create","keyId":"k","job":"j","serverUrl":"https://s.example",` +
		`"headers":"[]","priority":"low","orderingKey":"o","seq":"7","coalesce":"latest","coalesceCreate":true,"notify":true,"trace":"t",` +
		`"createdAt":"2026-11-20T12:00:00Z"}`
	want := activity.Activity{
		ID: "01J", Protocol: activity.ActivityPub, Body: "{}", Type: "Create",
		Options: activity.Options{
			KeyID: "k", Job: "j", ServerURL: "https://s.example", Priority: activity.Low, OrderingKey: "o",
			Coalesce: activity.CoalesceLatest, CoalesceCreate: true, Notify: true,
		},
		Headers: "[]", Sequence: "7", Trace: "t", CreatedAt: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
	}
	var got activity.Activity
	if err := json.Unmarshal([]byte(stored), &got); err != nil || got != want {
		t.Fatalf("read %+v, %v\nwant %+v", got, err, want)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var is, was map[string]any
	if err := json.Unmarshal(text, &is); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(stored), &was); err != nil {
		t.Fatal(err)
	}
	for name := range was {
		if is[name] != was[name] {
			t.Errorf("%s is written as %v, not %v", name, is[name], was[name])
		}
	}
	if len(is) != len(was) {
		t.Errorf("written as %s", text)
	}
}
