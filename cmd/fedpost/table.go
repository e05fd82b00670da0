package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// table prints rows in columns, each as wide as it has to be.
func table(out io.Writer, header []string, rows [][]string) error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = plain(cell)
		}
		// A tab ends the last cell, too: without it a cell does not count when the
		// width of its column is found.
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")+"\t"); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// facts prints names and values, without those that are empty.
func facts(out io.Writer, pairs ...string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\n", pairs[i], plain(pairs[i+1])); err != nil {
			return err
		}
	}
	return w.Flush()
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

// count is a number, empty for 0.
func count(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
