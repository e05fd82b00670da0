package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
)

// screen is an output for terminals. It escapes control characters, which answers of other servers may
// contain.
type screen struct {
	w      io.Writer
	width  int  // columns of the terminal; 0: no terminal, or its width is unknown
	colour bool // it understands styles
}

// Write implements io.Writer. A text is written whole, never in the middle of a
// character.
func (s screen) Write(p []byte) (int, error) {
	if _, err := io.WriteString(s.w, harmless(string(p), func(rune) string { return " " })); err != nil {
		return 0, err
	}
	return len(p), nil
}

// obeyed reports whether a terminal may do something else with r than show it:
// move the cursor, change the title, or turn the direction of what follows.
func obeyed(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
}

func harmless(s string, instead func(rune) string) string {
	if !strings.ContainsFunc(s, obeyed) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if obeyed(r) {
			b.WriteString(instead(r))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// escaped is a JSON text with the same meaning that a terminal shows as it is.
// Such characters are in strings only.
func escaped(text string) string {
	return harmless(text, func(r rune) string {
		if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}
