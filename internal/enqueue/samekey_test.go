package enqueue

import (
	"testing"
	"time"

	"fedpost/internal/activity"
)

// TestAKeysFingerprintStaysTheSame: it is stored. If it changed with a version of fedpost,
// a caller's retry would be refused as another request under the same key. A new field leaves
// it, as it is empty here.
func TestAKeysFingerprintStaysTheSame(t *testing.T) {
	body, key := `{"type":"Create"}`, "key"
	it := item{Request: Request{
		Protocol: "activitypub", Body: &body,
		Options: activity.Options{
			KeyID: "https://a.example/u#main-key", Job: "job", ServerURL: "https://s.example", OrderingKey: "order", Priority: activity.Low,
			Notify: true, Coalesce: activity.CoalesceLatest, CoalesceCreate: true,
		},
		AllowKeyOfOther: true, Headers: []activity.Header{{Name: "X-A", Value: "b", Sign: true}},
		DeduplicationKey: &key, DeduplicationTTL: time.Hour, Delay: time.Minute, ExpiresIn: time.Hour, EveryInbox: true,
	}, targets: []activity.Target{{Inbox: "https://a.example/in", Headers: "[]"}, {Inbox: "https://b.example/in"}}}
	const want = "KZ3tV7JrSzHd308diQ19Rg"
	if got := fingerprint(&plan{operation: opSingle, items: []item{it}}); got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
}
