package main

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

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
