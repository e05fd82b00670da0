package outcome

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is how much of an error, a note or an answer's body is kept, in bytes: three texts each of fifty
// recipients fit into one item of the table (400 KB).
const MaxText = 1024

// Text is Clean with at most MaxText bytes. Every text that a remote server can influence goes through Text
// or Clean where it enters, also errors of net/http, which quote headers of up to 64 KB.
func Text(s string) string { return Clean(s, MaxText) }

// Clean returns s as valid UTF-8 of at most limit bytes, with white space folded. U+FFFD replaces invalid
// UTF-8, control and format characters, which could disturb a terminal, and noncharacters, which SQS does not
// take. Cleaning a clean text changes nothing.
func Clean(s string, limit int) string {
	var b strings.Builder
	space := false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = b.Len() > 0
			continue
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Noncharacter_Code_Point):
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

func (o Outcome) Cleaned() Outcome {
	o.Err, o.Response, o.Note = Text(o.Err), Text(o.Response), Text(o.Note)
	return o
}
