package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// gap is between two columns.
const gap = "  "

// table prints rows in columns, each as wide as it has to be. On a terminal that is too
// narrow, empty columns are left out, and then the widest ones, except the first, go
// below their row, a line each. No text is cut, so it can be copied, and only a single
// cell that is wider than the terminal is wrapped by it. Other outputs get one line a row.
func table(out io.Writer, header []string, rows [][]string) error {
	s, _ := out.(screen)
	grid := gridOf(header, rows)
	if s.width > 0 {
		grid.fit(s.width)
	}
	label := 0
	for i, name := range header {
		if grid.below[i] {
			label = max(label, columns(name))
		}
	}
	var b strings.Builder
	grid.line(&b, header, func(_, cell string) string { return s.styled(bold, cell) })
	for _, row := range rows {
		grid.line(&b, row, func(column, cell string) string {
			if column == "STATE" || column == "PHASE" {
				return s.styled(styleOf(cell), cell)
			}
			return s.styled("", cell)
		})
		for i, cell := range row {
			if grid.below[i] && cell != "" {
				fmt.Fprintf(&b, "%s%s%s%s\n", gap, s.styled(dim, padded(strings.ToLower(header[i]), label)), gap, s.hanging(cell, label+2*len(gap)))
			}
		}
	}
	_, err := io.WriteString(s.under(out), b.String())
	return err
}

// rowsOf makes a row of each entry of a list.
func rowsOf[T any](all []T, row func(T) []string) [][]string {
	rows := make([][]string, len(all))
	for i, one := range all {
		rows[i] = row(one)
	}
	return rows
}

// grid is the columns of a table: which are side by side, and how wide.
type grid struct {
	header []string
	width  []int
	empty  []bool
	gone   []bool
	below  []bool
}

func gridOf(header []string, rows [][]string) *grid {
	n := len(header)
	g := &grid{header, make([]int, n), make([]bool, n), make([]bool, n), make([]bool, n)}
	for i, name := range header {
		g.width[i], g.empty[i] = columns(name), true
		for _, row := range rows {
			g.width[i] = max(g.width[i], columns(plain(row[i])))
			g.empty[i] = g.empty[i] && row[i] == ""
		}
	}
	return g
}

// total is how wide the columns are that are side by side.
func (g *grid) total() int {
	total := -len(gap)
	for i, w := range g.width {
		if !g.gone[i] {
			total += w + len(gap)
		}
	}
	return total
}

// fit takes columns out of the grid until it is at most as wide as width.
func (g *grid) fit(width int) {
	if g.total() > width {
		for i := range g.gone {
			g.gone[i] = i > 0 && g.empty[i]
		}
	}
	for g.total() > width {
		widest := 0
		for i := 1; i < len(g.width); i++ {
			if !g.gone[i] && (widest == 0 || g.width[i] >= g.width[widest]) {
				widest = i
			}
		}
		if widest == 0 {
			return
		}
		g.gone[widest], g.below[widest] = true, true
	}
}

// line writes the cells of a row that are side by side, without spaces at the end.
func (g *grid) line(b *strings.Builder, row []string, style func(column, cell string) string) {
	var line strings.Builder
	spaces := 0
	for i, cell := range row {
		if g.gone[i] {
			continue
		}
		cell = plain(cell)
		if cell != "" {
			line.WriteString(strings.Repeat(" ", spaces))
			line.WriteString(style(g.header[i], cell))
			spaces = 0
		}
		spaces += g.width[i] - columns(cell) + len(gap)
	}
	b.WriteString(line.String() + "\n")
}

// facts prints names and values, without those that are empty.
func facts(out io.Writer, pairs ...string) error {
	s, _ := out.(screen)
	widest := 0
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			widest = max(widest, columns(pairs[i]))
		}
	}
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		name, value := pairs[i], plain(pairs[i+1])
		if value == "" {
			continue
		}
		text := s.hanging(value, widest+len(gap))
		if name == "phase" {
			text = s.styled(styleOf(value), value)
		}
		fmt.Fprintf(&b, "%s%s%s\n", padded(name, widest), gap, text)
	}
	_, err := io.WriteString(s.under(out), b.String())
	return err
}

// hanging indents all lines of a text to a column of the terminal.
func (s screen) hanging(text string, column int) string {
	return strings.ReplaceAll(wrapped(plain(text), s.width-column, 0), "\n", "\n"+strings.Repeat(" ", column))
}

// plain takes line breaks and tabs out of a text, too: a cell is one line.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if obeyed(r) || r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, s)
}

// when is a time to the second, empty for none.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// near is a time of the day if it is near, else the day: a list of servers has two of them.
func near(t, now time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.Sub(now).Abs() < 20*time.Hour:
		return t.UTC().Format("15:04:05Z")
	}
	return t.UTC().Format(time.DateOnly)
}

// count is a number, empty for 0.
func count(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
