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

// mostReads is how many reads of the table one page takes at most.
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
			at = position{directory: at.directory + 1}
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

// position is where a list continues: a directory, and a cursor in it, for Sipher servers a URL.
type position struct {
	directory int
	after     string
}

// marks stand for the directories in a cursor.
var marks = []string{"c ", "s "}

// String is p as a cursor, encoded so that clients do not make cursors of their own.
func (p position) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(marks[p.directory] + p.after))
}

func parseCursor(s string) (position, error) {
	if s == "" {
		return position{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return position{}, ErrBadCursor
	}
	for i, mark := range marks {
		if after, ok := strings.CutPrefix(string(b), mark); ok {
			return position{directory: i, after: after}, nil
		}
	}
	return position{}, ErrBadCursor
}
