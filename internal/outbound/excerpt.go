package outbound

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"fedpost/internal/outcome"
)

// Excerpt returns the beginning of the body as text for records and terminals:
// valid UTF-8 of at most outcome.MaxResponse bytes, white space folded and
// control characters, with which a stranger could paint an operator's screen,
// replaced.
func (a Answer) Excerpt() string {
	var b strings.Builder
	space := false
	for _, r := range string(a.Body) {
		switch {
		case unicode.IsSpace(r):
			space = b.Len() > 0
			continue
		case unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Co):
			r = utf8.RuneError
		}
		need := utf8.RuneLen(r)
		if space {
			need++
		}
		if b.Len()+need > outcome.MaxResponse {
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return b.String()
}
