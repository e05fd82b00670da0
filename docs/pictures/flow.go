package main

import (
	"fmt"
	"strings"
)

const sans = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"

// flow draws how an activity goes from a server to inboxes.
func flow(p palette) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 300" role="img" aria-label="A server hands an activity and its recipients to fedpost and gets 202. fedpost signs it and delivers it to each inbox, waits for servers that are down, and reports inboxes that are gone." font-family="%s" font-size="14">`+"\n", sans)
	fmt.Fprintf(&b, `<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="%s"/></marker></defs>`+"\n", p.line)
	fmt.Fprintf(&b, `<rect width="900" height="300" fill="%s"/>`+"\n", p.back)
	box := func(x, y, w, h int, edge string, title string, lines ...string) {
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="8" fill="%s" stroke="%s" stroke-width="1.5"/>`+"\n", x, y, w, h, p.box, edge)
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s" font-weight="600">%s</text>`+"\n", x+14, y+24, p.text, title)
		for i, line := range lines {
			fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s" font-size="13">%s</text>`+"\n", x+14, y+46+20*i, p.faint, line)
		}
	}
	arrow := func(x1, y1, x2, y2 int, style string) {
		fmt.Fprintf(&b, `<path d="M%d %dL%d %d" fill="none" stroke="%s" stroke-width="1.5" marker-end="url(#tip)"%s/>`+"\n", x1, y1, x2, y2, p.line, style)
	}
	label := func(x, y int, text string) {
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s" font-size="13" text-anchor="middle">%s</text>`+"\n", x, y, p.text, text)
	}
	const dashed = ` stroke-dasharray="5 4"`
	box(20, 90, 170, 120, p.line, "Your server", "actors, followers,", "posts: any language,", "plain HTTP")
	box(350, 60, 230, 180, p.line, "fedpost", "on disk before the 202", "signs for each server", "retries for days", "keeps order for each host", "a record of each recipient", "one file, PostgreSQL or AWS")
	for i, inbox := range []struct{ edge, host, becomes string }{
		{p.good, "a.example", "202: delivered"},
		{p.waits, "b.example", "down: waits, asked rarely"},
		{p.waits, "c.example", "429: when it says so"},
		{p.bad, "d.example", "410: gone, you are told"},
	} {
		y := 16 + 70*i
		box(676, y, 208, 58, inbox.edge, inbox.host, inbox.becomes)
		arrow(580, 150, 672, y+29, "")
	}
	arrow(190, 120, 346, 120, "")
	label(268, 90, "1 activity,")
	label(268, 108, "50,000 recipients")
	arrow(350, 150, 194, 150, dashed)
	label(268, 168, "202 at once")
	arrow(350, 190, 194, 190, dashed)
	label(268, 208, "events, webhooks")
	b.WriteString("</svg>\n")
	return b.String()
}
