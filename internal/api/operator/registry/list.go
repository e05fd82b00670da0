package registry

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
)

// Filter selects servers: those that match all that is set.
type Filter struct {
	Phase    circuit.Phase
	Protocol activity.Protocol
}

func (f Filter) matches(v client.Server) bool {
	return (f.Phase == "" || client.Phase(f.Phase) == v.Phase) && (f.Protocol == "" || string(f.Protocol) == v.Protocol)
}

// Phases lists the phases that a server may be shown in.
var Phases = []circuit.Phase{
	circuit.Healthy, circuit.Unhealthy, circuit.HalfOpen, circuit.Recovering, circuit.Paused, circuit.Exhausted, circuit.Gone, circuit.Blocked,
}

// mostReads is how often the table is asked for one page: a rare phase among
// many servers takes several calls.
const mostReads = 50

// List pages through all servers with a record: hosts and inboxes in no order, then
// Sipher servers by URL. A page may be shorter than limit and not be the last; next is
// empty after the last page.
func (s *Service) List(ctx context.Context, f Filter, cursor string, limit int) (vs []client.Server, next string, err error) {
	at, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	vs = []client.Server{}
	all := s.directories()
	for reads := 0; at.directory < len(all); reads++ {
		d := all[at.directory]
		if f.Protocol != "" && !slices.Contains(d.protocols(), f.Protocol) {
			at = place{directory: at.directory + 1}
			continue
		}
		if len(vs) >= limit || reads == mostReads {
			return vs, at.String(), nil
		}
		page, after, err := d.page(ctx, f, at.after, limit-len(vs))
		if err != nil {
			return nil, "", err
		}
		vs = append(vs, page...)
		if at.after = after; after == "" {
			at.directory++
		}
	}
	return vs, "", nil
}

// place is where a list goes on: a directory, and a cursor of that directory. The cursor
// of Sipher servers is a URL.
type place struct {
	directory int
	after     string
}

// marks tell the directories apart in a cursor.
var marks = []string{"c ", "s "}

// String is p as a cursor, encoded so that clients do not make cursors of their own.
func (p place) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(marks[p.directory] + p.after))
}

func parseCursor(s string) (place, error) {
	if s == "" {
		return place{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return place{}, ErrBadCursor
	}
	for i, mark := range marks {
		if after, ok := strings.CutPrefix(string(b), mark); ok {
			return place{directory: i, after: after}, nil
		}
	}
	return place{}, ErrBadCursor
}
