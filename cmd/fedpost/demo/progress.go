package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// row is one line of the progress table.
type row struct {
	activity, server, state, want string
	attempts, status              int
	note                          string
}

func (r row) done() bool { return r.state == r.want }

// progress shows the recipients: as a table that is redrawn in place on a terminal, else as one
// line for every change, as in a log.
type progress struct {
	out      io.Writer
	terminal bool
	width    int // of the terminal; 0: not known
	started  time.Time
	lines    int
	last     map[string]string
}

func (p *progress) show(now time.Time, rows []row) {
	if p.terminal {
		p.redraw(now, rows)
		return
	}
	for _, r := range rows {
		key, text := r.activity+" "+r.server, r.text()
		if p.last[key] != text {
			p.last[key] = text
			fmt.Fprintf(p.out, "%6.1fs  %s\n", now.Sub(p.started).Seconds(), text)
		}
	}
}

func (p *progress) redraw(now time.Time, rows []row) {
	var b strings.Builder
	if p.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", p.lines)
	}
	fmt.Fprintf(&b, "\x1b[2K%6.1fs  %-22s %-9s %-10s %-9s %s\n", now.Sub(p.started).Seconds(), "ACTIVITY", "SERVER", "STATE", "ATTEMPTS", "LAST")
	for _, r := range rows {
		colour := "33" // yellow while it is under way
		if r.done() {
			colour = "32"
		}
		fmt.Fprintf(&b, "\x1b[2K         %-22s %-9s \x1b[%sm%-10s\x1b[0m %-9d %s\n", r.activity, r.server, colour, r.state, r.attempts, p.fitting(r.lastSeen()))
	}
	p.lines = len(rows) + 1
	fmt.Fprint(p.out, b.String())
}

// besides is how many columns of a line stand before what was last seen.
const besides = 63

// fitting cuts what was last seen: a line that is wider than the terminal would take two, and
// the table would not be drawn over the one before.
func (p *progress) fitting(text string) string {
	most := max(0, p.width-besides)
	if p.width == 0 || utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most])
}

func (r row) text() string {
	return strings.TrimRight(fmt.Sprintf("%-22s %-9s %-10s attempts=%d %s", r.activity, r.server, r.state, r.attempts, r.lastSeen()), " ")
}

func (r row) lastSeen() string {
	switch {
	case r.status != 0:
		return fmt.Sprintf("HTTP %d", r.status)
	case len(r.note) > 60:
		return r.note[:60] + "…"
	}
	return r.note
}
