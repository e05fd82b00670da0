package main

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// sequence is a control sequence that the demo prints: colours, a line cleared, lines up.
var sequence = regexp.MustCompile(`\x1b\[(\d*)([mKA])`)

// screen returns the last state of a terminal: each line as printed, with colours only.
func screen(out string) []string {
	var lines []string
	at := 0
	for line := range strings.SplitSeq(strings.TrimSuffix(strings.ReplaceAll(out, "\r", ""), "\n"), "\n") {
		text := sequence.ReplaceAllStringFunc(line, func(s string) string {
			switch m := sequence.FindStringSubmatch(s); m[2] {
			case "m":
				return s
			case "A":
				n, _ := strconv.Atoi(m[1]) // digits, as the pattern has it
				at -= n
			}
			return "" // a line that is cleared is written whole
		})
		if at == len(lines) {
			lines = append(lines, "")
		}
		lines[at] = strings.TrimRight(text, " ")
		at++
	}
	return lines
}

// terminal draws the last state of a terminal.
func terminal(p palette, out string) string {
	const width, height, margin = 7.85, 19, 16
	lines := screen(out)
	columns := 0
	for _, l := range lines {
		columns = max(columns, len([]rune(sequence.ReplaceAllString(l, ""))))
	}
	var b strings.Builder
	w, h := int(width*float64(columns))+2*margin, height*len(lines)+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="What fedpost demo prints" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13" fill="%s">`+"\n", w, h, p.text)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="%s" stroke="%s"/>`+"\n", w, h, p.box, p.line)
	colours := map[string]string{"32": p.good, "33": p.waits}
	for i, l := range lines {
		fmt.Fprintf(&b, `<text x="%d" y="%d" xml:space="preserve">`, margin, margin+height*i+14)
		for l != "" {
			at := sequence.FindStringSubmatchIndex(l)
			if at == nil {
				b.WriteString(escape(l))
				break
			}
			b.WriteString(escape(l[:at[0]]))
			if c := colours[l[at[2]:at[3]]]; c != "" {
				fmt.Fprintf(&b, `<tspan fill="%s">`, c)
			} else {
				b.WriteString("</tspan>")
			}
			l = l[at[1]:]
		}
		b.WriteString("</text>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}
