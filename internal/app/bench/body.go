package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The beginning of an activity, around its number. A server finds the number between them.
const (
	idBegin   = `https://bench.example/activities/`
	bodyBegin = `{"@context":"https://www.w3.org/ns/activitystreams","id":"` + idBegin
	bodyNext  = `","type":"Create","actor":"https://bench.example/users/zoe","object":{"type":"Note","content":"<p>`
	bodyEnd   = `</p>"}}`
)

// bodyOf is the activity of a number, of size bytes or a few more.
func bodyOf(number, size int) []byte {
	text := max(0, size-len(bodyBegin)-len(bodyNext)-len(bodyEnd)-6)
	filler := strings.Repeat("Grüße &amp; so. ", text/len("Grüße &amp; so. ")+1)[:text]
	filler = strings.ToValidUTF8(filler, ".")
	return fmt.Appendf(nil, "%s%d%s%s%s", bodyBegin, number, bodyNext, filler, bodyEnd)
}

// numberOf is the number of an activity, or an error if body is not, byte for byte, the
// activity that bodyOf makes.
func numberOf(body []byte, size int) (int, error) {
	rest, ok := bytes.CutPrefix(body, []byte(bodyBegin))
	digits, _, found := bytes.Cut(rest, []byte(`"`))
	n, err := strconv.Atoi(string(digits))
	if !ok || !found || err != nil || n < 0 {
		return 0, fmt.Errorf("a body of %d bytes is none of this run: %.80q", len(body), body)
	}
	if !bytes.Equal(body, bodyOf(n, size)) {
		return 0, fmt.Errorf("the body of activity %d was changed on its way", n)
	}
	return n, nil
}

// numberByID is the number of an activity by its id, or an error if body is no JSON with an
// id of bodyOf.
func numberByID(body []byte) (int, error) {
	var a struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return 0, fmt.Errorf("a body of %d bytes is no activity: %w", len(body), err)
	}
	digits, ok := strings.CutPrefix(a.ID, idBegin)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 {
		return 0, fmt.Errorf("a body of %d bytes is none of this run: its id is %.80q", len(body), a.ID)
	}
	return n, nil
}
