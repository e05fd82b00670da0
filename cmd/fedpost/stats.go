package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"fedpost/client"
)

// statsCommand shows the state of queues, deliveries and servers.
type statsCommand struct {
	remote
	Days positive `help:"Number of days to count, today included, up to 31." default:"1"`
}

func (c statsCommand) Run(ctx context.Context, out io.Writer) error {
	return call(ctx, c.remote, out, func(api *client.Client) (client.Stats, error) {
		return api.Stats(ctx, client.StatsQuery{Days: int(c.Days)})
	}, func(out io.Writer, s client.Stats) error { return showStats(out, s, int(c.Days)) })
}

// indent is where the lines of numbers begin.
const indent = "            "

// singular makes a name of counts that of one.
var singular = strings.NewReplacer("recipients ", "recipient ", "requests ", "request ", "calls ", "call ", "activities ", "activity ")

// order is the order in which queues are shown.
var order = []string{"high", "normal", "low", "ordered", "dead", "dead-ordered"}

func showStats(out io.Writer, s client.Stats, days int) error {
	if err := table(out, []string{"QUEUE", "VISIBLE", "IN FLIGHT", "DELAYED", "OLDEST"}, queueRows(s)); err != nil {
		return err
	}
	terminal, _ := out.(screen)
	period := "today, UTC"
	if days > 1 {
		period = fmt.Sprintf("%d days", days)
	}
	counted := map[string]int{}
	for name, n := range s.Counts {
		words := client.CountName(name)
		if n == 1 {
			words = singular.Replace(words)
		}
		counted[words] += n
	}
	lines := append([]string{padded(period, len(indent)) + counts(counted)}, summary(s)...)
	for i, line := range lines {
		lines[i] = wrapped(line, terminal.width, len(indent))
	}
	if _, err := fmt.Fprintf(out, "\n%s\n", strings.Join(lines, "\n")); err != nil {
		return err
	}
	if len(s.Unhealthy) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return table(out, []string{"SERVER", "PHASE", "DOWN SINCE", "INBOXES", "SIGNING KEY", "REASON", "WHY"}, rowsOf(s.Unhealthy, func(u client.Trouble) []string {
		return []string{u.Server, string(u.Phase), when(u.DownSince), count(u.Inboxes), u.KeyID, u.Reason, u.Why}
	}))
}

func queueRows(s client.Stats) [][]string {
	var rows [][]string
	for _, name := range order {
		q := s.Queues[name]
		age := ""
		if q.Oldest != nil {
			age = (time.Duration(*q.Oldest) * time.Second).String()
		}
		rows = append(rows, []string{name, fmt.Sprint(q.Visible), fmt.Sprint(q.InFlight), fmt.Sprint(q.Delayed), age})
	}
	if o := s.Outbox; o != nil {
		rows = append(rows, []string{"outbox", fmt.Sprint(o.Waiting), "", "", (time.Duration(o.Oldest) * time.Second).String()})
	}
	return rows
}

// counts is a list of numbers, the largest first.
func counts(m map[string]int) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(m[b]-m[a], strings.Compare(a, b)) })
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%d %s", m[name], name)
	}
	return strings.Join(parts, ", ")
}
