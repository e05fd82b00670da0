package bench

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// The beginning of an activity, around its number. A server finds the number between them.
const (
	bodyBegin = `{"@context":"https://www.w3.org/ns/activitystreams","id":"https://bench.example/activities/`
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
