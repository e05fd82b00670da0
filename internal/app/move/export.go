package move

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"fedpost/internal/app/progress"
)

// Counts say how many things of each kind were exported.
type Counts map[kind]int

// page is how many records are read at once.
const page = 100

// Export writes an encrypted export. work is the cost of each guess at the passphrase, as a power of
// two; 0: age's default, about a second.
func Export(ctx context.Context, from Installation, to io.Writer, passphrase string, work int) (Counts, error) {
	w, err := newWriter(to, passphrase, work, from.now())
	if err != nil {
		return nil, err
	}
	counts := Counts{}
	var records atomic.Int64
	progress.Begin(ctx, "exporting records", func() (done, all int64) { return records.Load(), 0 })
	for _, k := range inOrder {
		counts[k] = 0
		for cursor, more := "", true; more; more = cursor != "" {
			var all []thing
			if all, cursor, err = kinds[k].export(from, ctx, cursor); err != nil {
				return nil, err
			}
			for _, t := range all {
				// Now, as Open would refuse it when the installation may be gone.
				if err := t.check(); err != nil {
					return nil, fmt.Errorf("%s cannot be exported: %w", t.name(), err)
				}
				if err := w.put(kinds[k].field, t); err != nil {
					return nil, err
				}
				counts[k]++
				records.Add(1)
			}
		}
	}
	return counts, w.close()
}

func (c Counts) String() string {
	var parts []string
	for _, k := range said {
		switch n := c[k]; n {
		case 0:
		case 1:
			parts = append(parts, "1 "+kinds[k].one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, kinds[k].many))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
