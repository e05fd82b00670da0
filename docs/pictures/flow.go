package main

import (
	"fmt"
	"strings"
)

const sans = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"

// flow draws how an activity goes from a server to inboxes.
func flow(p palette) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 380" role="img" aria-label="A server hands an activity and its recipients to API Gateway and gets 202. The Lambda functions enqueue, deliver and healthcheck work on SQS and DynamoDB, and deliver it to each inbox. Or one program does the same, on a file or PostgreSQL." font-family="%s" font-size="14">`+"\n", sans)
	fmt.Fprintf(&b, `<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="%s"/></marker></defs>`+"\n", p.line)
	fmt.Fprintf(&b, `<rect width="1000" height="380" fill="%s"/>`+"\n", p.back)
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
	fmt.Fprintf(&b, `<rect x="196" y="14" width="592" height="276" rx="8" fill="none" stroke="%s"%s/>`+"\n", p.line, dashed)
	label(492, 36, "on AWS, by one template")
	box(10, 62, 136, 124, p.line, "Your server", "any language,", "plain HTTP,", "one activity and", "50,000 inboxes")
	box(210, 52, 164, 120, p.line, "enqueue", "Lambda function", "behind API Gateway:", "checks, stores,", "answers 202")
	box(398, 52, 196, 120, p.line, "SQS FIFO", "drops repeated calls:", "MessageDeduplicationId", "keeps order by group", "a dead-letter queue")
	box(618, 52, 158, 120, p.line, "deliver", "Lambda function:", "signs, sends, returns", "what failed (partial", "batches)")
	box(210, 198, 384, 82, p.line, "DynamoDB", "a record of each recipient", "a conditional put drops repeated calls without FIFO")
	box(618, 198, 158, 82, p.line, "healthcheck", "Lambda, each minute", "by EventBridge")
	box(196, 306, 592, 62, p.line, "or one program: fedpost up", "the same engine, on a file or on PostgreSQL")
	for i, inbox := range []struct{ edge, host, becomes string }{
		{p.good, "a.example", "202: delivered"},
		{p.waits, "b.example", "down: it waits"},
		{p.waits, "c.example", "429: when it says"},
		{p.bad, "d.example", "410: you are told"},
	} {
		y := 14 + 72*i
		box(836, y, 154, 58, inbox.edge, inbox.host, inbox.becomes)
		arrow(776, 112, 832, y+29, "")
	}
	arrow(146, 106, 206, 106, "")
	arrow(210, 146, 150, 146, dashed)
	label(172, 138, "202")
	arrow(374, 112, 394, 112, "")
	arrow(594, 112, 614, 112, "")
	arrow(292, 172, 292, 194, "")
	arrow(618, 160, 584, 194, "")
	arrow(618, 239, 598, 239, "")
	b.WriteString("</svg>\n")
	return b.String()
}
