package activitypub

import (
	"strings"
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

// TestAMemberThatIsGivenTwiceIsRefused: servers differ in which of the two they read, and an activity is
// found by one id.
func TestAMemberThatIsGivenTwiceIsRefused(t *testing.T) {
	const rest = `"actor":"https://a.example/u","type":"Create"}`
	for body, want := range map[string]string{
		`{"id":"https://a.example/1","id":"https://a.example/2",` + rest:            "/id",
		`{"id":"https://a.example/1","@id":"https://a.example/1",` + rest:           "/@id",
		`{"actor":"https://b.example/u",` + rest:                                    "/actor",
		`{"type":"Like",` + rest:                                                    "/type",
		`{"object":"https://a.example/1","as:object":"https://a.example/1",` + rest: "/as:object",
		`{"x":1,"\u0078":1,` + rest:                                                 "/x",
		`{"https://a.example/~x":1,"https://a.example/~x":1,` + rest:                "/https:~1~1a.example~1~0x",
		`{"object":{"id":"https://a.example/1","id":"https://a.example/2"},` + rest: "/object/id",
		`{"object":{"id":"https://a.example/1","tag":[{"a":1},{"a":1}]},` + rest:    "",
		`{"Type":"Like",` + rest:                                                    "",
	} {
		_, faults := inspector{}.Inspect(body)
		got := ""
		for _, f := range faults {
			got += f.Pointer
		}
		if got != want {
			t.Errorf("%s: faults %q, want %q", body, got, want)
		}
	}
	long := strings.Repeat("n", 1<<20)
	if _, faults := (inspector{}).Inspect(`{"` + long + `":1,"` + long + `":1,` + rest); len(faults) != 1 || len(faults[0].Pointer) > 2*longestName {
		t.Errorf("%d faults, want one with the beginning of the name", len(faults))
	}
	many := strings.Repeat(`"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,`, 2)
	if _, faults := (inspector{}).Inspect(`{` + many + rest); len(faults) != mostFaults {
		t.Errorf("%d faults of one object, want %d at most", len(faults), mostFaults)
	}
}
