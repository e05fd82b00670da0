package store

import (
	"context"
	"fmt"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

// journalUnit is what a journal's item says of one unit.
type journalUnit struct {
	Activity activity.ID `json:"i"`
	Chunk    int         `json:"n"`
	Position int         `json:"w"`
	chunkState
}

func journalPK(name string) string { return "J#" + name }

// longestJournalText is how many bytes of an error, and of a note, a journal keeps. One item
// has the outcomes of many units; the records that follow have the whole texts.
const longestJournalText = 100

func (s *Store) WriteJournal(ctx context.Context, journal string, n int, entries []ledger.JournalEntry) error {
	all, expires := make([]journalUnit, len(entries)), s.now().Add(orphanLife)
	for i, e := range entries {
		all[i] = journalUnit{Activity: e.Unit.Activity, Chunk: e.Unit.Chunk, Position: e.Unit.Position}
		all[i].put(e.Recipients)
		expires = latest(expires, e.Forget)
		for k, w := range all[i].Rows {
			all[i].Rows[k].Tries = nil
			all[i].Rows[k].text = text{Error: outcome.Clean(w.Error, longestJournalText), Note: outcome.Clean(w.Note, longestJournalText)}
		}
	}
	it, err := outcomePacking.item(table.Key{PK: journalPK(journal), SK: fmt.Sprintf("%06d", n)}, all, expires)
	if err != nil {
		return err
	}
	return wrapped(s.t.Put(ctx, it, table.Cond{}), "write outcomes to journal %s", journal)
}

// journals are those read so far, by name.
type journals map[string][]journalUnit

// fold adds to a unit's state the outcomes that its worker has written to the journal.
// It does so only while the worker's claim is not ended, since only then may outcomes
// be in the journal and not recorded.
func (s *Store) fold(ctx context.Context, read journals, u message.Unit, c *chunkState) error {
	if c.Journal == "" || c.Until == 0 {
		return nil
	}
	units, ok := read[c.Journal]
	if !ok {
		items, _, err := s.t.Query(ctx, table.Range{PK: journalPK(c.Journal)})
		if err != nil {
			return fmt.Errorf("read journal %s: %w", c.Journal, err)
		}
		for _, it := range items {
			var more []journalUnit
			if err := outcomePacking.unpack(it, &more); err != nil {
				return err
			}
			units = append(units, more...)
		}
		read[c.Journal] = units
	}
	for _, n := range units {
		if n.Activity != u.Activity || n.Chunk != u.Chunk || n.Position != u.Position {
			continue
		}
		for _, r := range n.recipients() {
			if _, recorded := c.recipient(r.Position); !recorded || u.Position != message.Whole {
				c.put([]ledger.Recipient{r})
			}
		}
	}
	return nil
}
