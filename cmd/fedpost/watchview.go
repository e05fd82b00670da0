package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/ledger/stats"
)

// watched are the counts that watch shows, of today.
var watched = []string{stats.Accepted, stats.Attempts, string(activity.Delivered), string(activity.Failed), string(activity.Dead)}

// rate is how much a count grew in a second between the last two updates. At midnight the
// counts begin anew.
func (g glance) rate(name string) string {
	if g.before == nil {
		return "-"
	}
	grown, seconds := g.stats.Counts[name]-g.before.Counts[name], g.stats.At.Sub(g.before.At).Seconds()
	if grown < 0 || seconds <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(grown)/seconds)
}

// Sequences of a terminal (ECMA-48, and xterm's for the second screen).
const (
	enterView = "\x1b[?1049h\x1b[?25l" // second screen, no cursor
	leaveView = "\x1b[?25h\x1b[?1049l"
	home      = "\x1b[H"
	endOfLine = "\x1b[K"
	endOfView = "\x1b[J"
)

// view draws glances on a terminal, each over the one before, as large as the terminal is
// now. What was on the terminal comes back at the end.
type view struct {
	screen
	title         string
	size          func() (width, height int, err error)
	width, height int // at the last drawing
	last          glance
}

func (v *view) open() error  { return v.raw(enterView) }
func (v *view) close() error { return v.raw(leaveView) }

// raw writes what the terminal is to obey.
func (v *view) raw(sequence string) error {
	_, err := io.WriteString(v.w, sequence)
	return err
}

func (v *view) show(g glance) error {
	v.last = g
	return v.draw()
}

func (v *view) resized() error {
	w, h, err := v.size()
	if err != nil || (w == v.width && h == v.height) {
		return nil // a terminal that does not say its size keeps the former one
	}
	return v.draw()
}

func (v *view) draw() error {
	if w, h, err := v.size(); err == nil {
		v.width, v.height = w, h
	}
	width, height := cmp.Or(v.width, 80), cmp.Or(v.height, 24)
	all := strings.Split(strings.TrimSuffix(v.text(width), "\n"), "\n")
	if len(all) > height {
		all = all[:height]
	}
	return v.raw(home + strings.Join(all, endOfLine+"\r\n") + endOfLine + endOfView)
}

// text is the view for a width, in lines that are no wider.
func (v *view) text(width int) string {
	var b strings.Builder
	s := screen{w: &b, width: width, colour: v.colour}
	g, at := v.last, when(v.last.stats.At)
	b.WriteString(s.styled(bold, cut(padded(cut(v.title, max(0, width-len(at)-1)), max(len(at), width-len(at)))+at, width)) + "\n")
	if g.trouble != nil {
		b.WriteString(s.styled(red, cut(g.trouble.Error(), width)) + "\n")
	}
	b.WriteString("\n")
	v.counts(&b, s, width)
	b.WriteString("\n")
	v.queues(&b, s)
	b.WriteString("\n")
	for _, line := range summary(g.stats) {
		b.WriteString(s.styled("", cut(line, width)) + "\n")
	}
	if len(g.stats.Unhealthy) > 0 {
		b.WriteString("\n")
	}
	for _, u := range g.stats.Unhealthy {
		why := u.Why
		if u.Reason != "" {
			why = u.Reason + ": " + why
		}
		text := plain(fmt.Sprintf("%-10s  %s  since %s  %s", u.Phase, u.Server, when(u.DownSince), why))
		for i, one := range strings.Split(wrapped(text, width, 12), "\n") {
			line := []rune(cut(one, width))
			n := 0
			if i == 0 {
				n = min(len(line), len(string(u.Phase)))
			}
			b.WriteString(s.styled(styleOf(string(u.Phase)), string(line[:n])) + s.styled("", string(line[n:])) + "\n")
		}
	}
	return b.String()
}

// counts writes the counts of today, how fast they grow, and the minutes of the last hour.
func (v *view) counts(b *strings.Builder, s screen, width int) {
	header := fmt.Sprintf("%-12s%10s%10s", "TODAY", "COUNT", "A SECOND")
	if v.last.history != nil {
		header += "  LAST HOUR"
	}
	b.WriteString(s.styled(bold, cut(header, width)) + "\n")
	for _, name := range watched {
		line := fmt.Sprintf("%-12s%10d%10s", name, v.last.stats.Counts[name], v.last.rate(name))
		if h := v.last.history; h != nil {
			line += "  " + bars(h.Counts[name], max(0, width-len(line)-2))
		}
		b.WriteString(s.styled("", cut(line, width)) + "\n")
	}
}

func (v *view) queues(b *strings.Builder, s screen) {
	b.WriteString(s.styled(bold, cut(fmt.Sprintf("%-12s%10s%10s%10s  %s", "QUEUE", "VISIBLE", "IN FLIGHT", "DELAYED", "OLDEST"), s.width)) + "\n")
	for _, row := range queueRows(v.last.stats) {
		b.WriteString(s.styled("", cut(fmt.Sprintf("%-12s%10s%10s%10s  %s", row[0], row[1], row[2], row[3], row[4]), s.width)) + "\n")
	}
}

// summary are the numbers that stand below the tables of queues.
func summary(s client.Stats) []string {
	var all []string
	if w := s.Waiting; w != nil {
		all = append(all, padded("waiting", len(indent))+amount(w.Count, w.AtLeast)+" for servers")
	}
	all = append(all, padded("servers", len(indent))+cmp.Or(counts(s.Servers), "all healthy"))
	if len(s.Webhooks) > 0 {
		all = append(all, padded("webhooks", len(indent))+counts(s.Webhooks))
	}
	return all
}

// bars draws the last numbers, one column each, the largest as a full block.
func bars(numbers []int, width int) string {
	numbers = numbers[max(0, len(numbers)-width):]
	most := 0
	for _, n := range numbers {
		most = max(most, n)
	}
	var b strings.Builder
	for _, n := range numbers {
		switch {
		case n <= 0:
			b.WriteRune(' ')
		default:
			b.WriteRune([]rune("▁▂▃▄▅▆▇█")[(n*8-1)/most])
		}
	}
	return strings.TrimRight(b.String(), " ")
}
