package move

import (
	"context"
	"fmt"
	"io"
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
	counts := Counts{serverKind: 0, blockKind: 0, peerKind: 0, followKind: 0, webhookKind: 0, keyKind: 0}
	var records atomic.Int64
	progress.Begin(ctx, "exporting records", func() (done, all int64) { return records.Load(), 0 })
	put := func(l line) error {
		// Now, as Open would refuse it when the installation may be gone.
		t := l.thing()
		if err := t.check(); err != nil {
			return fmt.Errorf("%s cannot be exported: %w", t.name(), err)
		}
		counts[t.kind()]++
		records.Add(1)
		return w.put(l)
	}
	for _, export := range []func(context.Context, func(line) error) error{
		from.servers, from.sipherBlocks, from.peers, from.follows, from.webhooks, from.keys,
	} {
		if err := export(ctx, put); err != nil {
			return nil, err
		}
	}
	return counts, w.close()
}

// pages calls list for page after page.
func pages(list func(cursor string) (next string, err error)) error {
	for cursor := ""; ; {
		next, err := list(cursor)
		if err != nil || next == "" {
			return err
		}
		cursor = next
	}
}
