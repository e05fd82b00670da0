package move

import (
	"fmt"
	"strconv"
	"strings"
)

// said are the kinds in the order of reports, with their names for one and for several.
var said = []struct {
	kind      kind
	one, many string
}{
	{keyKind, "key", "keys"},
	{serverKind, "server", "servers"},
	{webhookKind, "webhook", "webhooks"},
	{peerKind, "Sipher server", "Sipher servers"},
	{blockKind, "block of a Sipher server", "blocks of Sipher servers"},
	{followKind, "follow", "follows"},
}

func (c Counts) String() string {
	var parts []string
	for _, s := range said {
		switch n := c[s.kind]; n {
		case 0:
		case 1:
			parts = append(parts, "1 "+s.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, s.many))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Rows is r as a table: the kind, and its counts in the order of Done.
func (r Report) Rows() (rows [][]string) {
	for _, s := range said {
		if d, ok := r[s.kind]; ok {
			rows = append(rows, []string{s.many, strconv.Itoa(d.Added), strconv.Itoa(d.Same), strconv.Itoa(d.Replaced), strconv.Itoa(d.Left)})
		}
	}
	return rows
}
