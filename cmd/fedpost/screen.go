package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf16"

	"golang.org/x/term"
	"golang.org/x/text/width"
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

// Styles of a terminal (ECMA-48, Select Graphic Rendition).
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// states have a colour: red for failures, yellow for waiting, green for success.
var states = map[string]string{
	"delivered": green, "redundant": green, "superseded": green, "healthy": green, "enabled": green,
	"queued": "", "retrying": yellow, "parked": yellow, "unhealthy": yellow, "half-open": yellow, "recovering": yellow, "paused": yellow, "failing": yellow,
	"failed": red, "dead": red, "expired": red, "cancelled": red, "exhausted": red, "gone": red, "blocked": red, "disabled": red,
}

// styleOf is the style of a state of a recipient, a server or a webhook.
func styleOf(state string) string { return states[state] }

// screenOn returns a screen on f. Only terminals get colours, except the console of Windows, which has
// to be configured for them; https://no-color.org turns them off.
func screenOn(f *os.File) screen {
	s := screen{w: f}
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return s
	}
	if w, _, err := term.GetSize(fd); err == nil {
		s.width = w
	}
	s.colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && runtime.GOOS != "windows"
	return s
}

// styled is a text of one line in a style, which nothing in the text can end.
func (s screen) styled(style, text string) string {
	text = plain(text)
	if !s.colour || style == "" || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// under is the writer below out if out is s. It does not escape, so only texts made by styled go
// there.
func (s screen) under(out io.Writer) io.Writer {
	if s.w == nil {
		return out
	}
	return s.w
}

// columns is how many columns of a terminal a text takes.
func columns(text string) int {
	n := 0
	for _, r := range text {
		n += columnsOf(r)
	}
	return n
}

// jamo are the medial and final letters of a Hangul syllable, which a terminal draws over
// the initial one.
var jamo = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x1160, Hi: 0x11ff, Stride: 1}, {Lo: 0xd7b0, Hi: 0xd7ff, Stride: 1}}}

// columnsOf counts a character as wcwidth and terminals do: two columns if it is wide (Unicode Standard
// Annex #11), none if it combines with the one before.
func columnsOf(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, jamo) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// padded fills a text with spaces up to a number of columns.
func padded(text string, to int) string {
	return text + strings.Repeat(" ", max(0, to-columns(text)))
}

// cut shortens a text of one line to a number of columns.
func cut(text string, most int) string {
	text = plain(text)
	if columns(text) <= most {
		return text
	}
	if most < 1 {
		return ""
	}
	n := 0
	for i, r := range text {
		if n += columnsOf(r); n > most-1 { // one is for the mark
			return text[:i] + "…"
		}
	}
	return text
}

// wrapped is a text whose lines end between words, so that a terminal of so many columns
// cuts none; 0: no terminal. Lines that go on begin with spaces. A word that is wider, such
// as an address, stays whole.
func wrapped(text string, most, indent int) string {
	if most <= 0 {
		return text
	}
	var b strings.Builder
	n := 0
	for i, word := range strings.Split(text, " ") {
		first, _, _ := strings.Cut(word, "\n")
		switch {
		case i == 0:
		case n+1+columns(first) > most && n > indent:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			n = indent
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		if end := strings.LastIndexByte(word, '\n'); end >= 0 {
			n, word = 0, word[end+1:]
		}
		n += columns(word)
	}
	return b.String()
}
