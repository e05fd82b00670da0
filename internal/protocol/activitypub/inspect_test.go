package activitypub

import (
	"testing"

	"fedpost/internal/protocol"
)

// TestNamesOfAnActivityReachNoLogRaw: a stranger can write direction controls and escape
// sequences into an activity that is forwarded, which would repaint a line of a log or terminal.
func TestNamesOfAnActivityReachNoLogRaw(t *testing.T) {
	said, _ := inspector{}.Inspect(`{"type":"Cre\u202eate","id":"https://a.example/\u001b[2J1","actor":"https://a.example/\u2066u","object":{"type":"Note","id":"https://a.example/\u202eo"}}`)
	want := protocol.Content{Type: "Cre\ufffdate", ID: "https://a.example/\ufffd[2J1", Actor: "https://a.example/\ufffdu", Object: "https://a.example/\ufffdo"}
	if said != want {
		t.Errorf("the activity says of itself %+q, want %+q", said, want)
	}
}
