package outbound

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"fedpost/internal/activity/outcome"
)

// Excerpt returns the beginning of the body, Clean and of at most
// outcome.MaxResponse bytes.
func (a Answer) Excerpt() string { return Clean(string(a.Body), outcome.MaxResponse) }

// Clean makes what a stranger wrote fit for records and terminals: valid UTF-8
// of at most limit bytes, white space folded, and control characters, with
// which an operator's screen could be painted, replaced.
func Clean(s string, limit int) string {
	var b strings.Builder
	space := false
	for _, r := range s {
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
		if b.Len()+need > limit {
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
