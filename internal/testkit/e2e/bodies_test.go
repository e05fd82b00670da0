package e2e

import (
	"strings"
	"testing"

	"fedpost/internal/testkit/fediverse"
)

// byteExact submits activities as real servers emit them, up to 200 KB, and
// compares what arrives byte for byte. White space
// at the ends of a body belongs to the request, not to the activity.
func byteExact(t *testing.T, w *World) {
	for name, body := range fediverse.Fixtures() {
		r := w.Remote()
		id := w.Send(body, r.URL("/inbox"), r.URL("/users/zoe/inbox?x=%C3%A4"))
		w.Ends(id, map[string]int{"delivered": 2})
		posts := r.Posts()
		if len(posts) != 2 {
			t.Errorf("%s: %d POSTs", name, len(posts))
		}
		for _, p := range posts {
			if p.Refused != nil {
				t.Errorf("%s: refused: %v", name, p.Refused)
			}
			if p.Body != trimmed(body) {
				t.Errorf("%s: a body of %d bytes arrived as one of %d", name, len(trimmed(body)), len(p.Body))
			}
		}
	}
}

// trimmed is a JSON text without the white space around it, which is the
// request's and not the activity's.
func trimmed(body string) string { return strings.Trim(body, " \t\r\n") }
