package store

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
)

// chunkState is the item that the workers of a whole chunk write: their claim, and
// the outcomes of the targets that they attempted. No other worker writes it: a
// target that gets messages of its own has an item of its own (ownState).
type chunkState struct {
	// Owner stays when its claim has ended. So an owner that lost the answer to its
	// last write can see that the write happened.
	Owner string `json:"o,omitempty"`
	Until int64  `json:"u,omitempty"` // 0: the claim has ended
	// Journal is where the owner writes outcomes before it records them.
	Journal string `json:"j,omitempty"`
	// Texts names the items that errors and answers were moved to.
	Texts []string `json:"x,omitempty"`
	Since int64    `json:"b,omitempty"` // what the rows' times count from
	Rows  []row    `json:"r,omitempty"`
}

// row is one target's outcome. Zero fields mean a delivery at the first try, and
// times are small numbers of milliseconds, so fifty rows take a few hundred bytes.
type row struct {
	Position   int            `json:"p"`
	State      activity.State `json:"s"`
	Attempts   int            `json:"a,omitempty"` // -1: none, 0: one
	Unsent     int            `json:"z,omitempty"`
	Status     int            `json:"c,omitempty"`
	At         int64          `json:"t,omitempty"` // ms after Since; -1: not known
	Next       int64          `json:"n,omitempty"` // ms after Since, 0: none, so what is due at Since is 1
	Generation int            `json:"g,omitempty"`
	By         activity.ID    `json:"y,omitempty"`
	Lot        string         `json:"l,omitempty"`
	// Tries are ledger.Tries, which are JSON.
	Tries json.RawMessage `json:"h,omitempty"`
	// Moved is the number, from 1, of the item of Texts that has this row's text;
	// 0 if the text is in the row.
	Moved int `json:"x,omitempty"`
	text
}

// text is the part of an outcome that may be long: error, answer and note.
type text struct {
	Error    string `json:"e,omitempty"`
	Response string `json:"q,omitempty"`
	Note     string `json:"m,omitempty"`
}

func (t text) empty() bool { return t == text{} }

// claimed returns until when another worker holds the chunk; zero if none.
func (c chunkState) claimed(now time.Time) time.Time {
	if until := fromMillis(c.Until); until.After(now) {
		return until
	}
	return time.Time{}
}

func (c chunkState) recipients() map[int]ledger.Recipient {
	rs := make(map[int]ledger.Recipient, len(c.Rows))
	for _, w := range c.Rows {
		r := ledger.Recipient{
			Position: w.Position, State: w.State, Attempts: w.Attempts + 1, Unsent: w.Unsent, LastStatus: w.Status,
			LastError: w.Error, Response: w.Response, Note: w.Note,
			Generation: w.Generation, By: w.By, Lot: w.Lot, Tries: ledger.Tries(w.Tries),
		}
		if w.At >= 0 {
			r.UpdatedAt = fromMillis(c.Since + w.At)
		}
		if w.Next != 0 {
			r.NextAttemptAt = fromMillis(c.Since + w.Next)
		}
		rs[w.Position] = r
	}
	return rs
}

// recipient returns the outcome of a position, if there is one.
func (c chunkState) recipient(position int) (ledger.Recipient, bool) {
	r, ok := c.recipients()[position]
	return r, ok
}

// ownState is the item of one position that has messages of its own. Only the
// workers of those messages write it.
type ownState struct {
	chunkState
	// Generation is that of the message that last claimed it.
	Generation int `json:"g,omitempty"`
}

// merged joins o with what the chunk's worker wrote about the position; chunk is nil
// if that worker wrote nothing.
func (o ownState) merged(position int, chunk *ledger.Recipient, now time.Time) ledger.Recipient {
	r, recorded := o.recipient(position)
	switch {
	case recorded && chunk != nil:
		r = ledger.Merge(*chunk, r)
	case !recorded && chunk != nil:
		r = *chunk
	case !recorded:
		r = ledger.Recipient{Position: position, State: activity.Queued}
	}
	r.Generation = max(r.Generation, o.Generation)
	r.Own, r.Claimed = true, o.claimed(now)
	return r
}

// put replaces the rows of rs. A row that says delivered stays: the server has
// accepted the activity, whatever else is reported about the same position.
func (c *chunkState) put(rs []ledger.Recipient) {
	rows := make(map[int]row, len(c.Rows)+len(rs))
	for _, w := range c.Rows {
		rows[w.Position] = w
	}
	for _, r := range rs {
		if at := millis(r.UpdatedAt); c.Since == 0 || at != 0 && at < c.Since {
			c.rebase(at, rows)
		}
	}
	for _, r := range rs {
		if rows[r.Position].State == activity.Delivered {
			continue
		}
		w := row{
			Position: r.Position, State: r.State, Attempts: r.Attempts - 1, Unsent: r.Unsent, Status: r.LastStatus,
			At: -1, Generation: r.Generation, By: r.By, Lot: r.Lot, Tries: json.RawMessage(r.Tries),
			text: text{Error: r.LastError, Response: r.Response, Note: r.Note},
		}
		if !r.UpdatedAt.IsZero() {
			w.At = millis(r.UpdatedAt) - c.Since
		}
		if !r.NextAttemptAt.IsZero() {
			w.Next = cmp.Or(millis(r.NextAttemptAt)-c.Since, 1)
		}
		rows[r.Position] = w
	}
	// The positions are sorted and not the rows: a sort of large values is 26 KB of code.
	c.Rows = slices.Grow([]row(nil), len(rows))
	for _, position := range slices.Sorted(maps.Keys(rows)) {
		c.Rows = append(c.Rows, rows[position])
	}
}

// rebase makes the rows' times count from since.
func (c *chunkState) rebase(since int64, rows map[int]row) {
	for p, w := range rows {
		if w.At >= 0 {
			w.At += c.Since - since
		}
		if w.Next != 0 {
			w.Next = cmp.Or(w.Next+c.Since-since, 1)
		}
		rows[p] = w
	}
	c.Since = since
}

// stateRoom is how many bytes a chunk's state may have before its texts move to
// items of their own. Every step of the chunk writes the state again, so the state
// has to fit in one write unit.
const stateRoom = 900

// mostTexts is how large an item of texts, or the state of a single position,
// may be, in bytes. Larger ones lose their texts. The table refuses an item over
// table.MaxItem, and a delivery whose outcome is not recorded is sent again.
const mostTexts = table.MaxItem - 8<<10

func (o ownState) packOwn() ([]byte, error) {
	data, err := outcomePacking.pack(o)
	if err != nil || len(data) <= mostTexts {
		return data, err
	}
	o.Rows = slices.Clone(o.Rows)
	for i := range o.Rows {
		o.Rows[i].text = text{}
	}
	return outcomePacking.pack(o)
}

type textItem map[int]text

// pack returns the state's data and, if its texts had to move out, an item for
// them, which has to be written first.
func (c *chunkState) pack(k func(name string) table.Key) (data []byte, texts *table.Item, err error) {
	if data, err = outcomePacking.pack(c); err != nil || len(data) <= stateRoom {
		return data, nil, err
	}
	out := make(textItem)
	for i, w := range c.Rows {
		if !w.text.empty() {
			out[w.Position] = w.text
			c.Rows[i].text, c.Rows[i].Moved = text{}, len(c.Texts)+1
		}
	}
	if len(out) == 0 {
		return data, nil, nil
	}
	name := newFence()
	c.Texts = append(slices.Clone(c.Texts), name)
	texts = &table.Item{Key: k(name)}
	if texts.Data, err = outcomePacking.pack(out); err != nil {
		return nil, nil, err
	}
	if len(texts.Data) > mostTexts {
		if texts.Data, err = outcomePacking.pack(textItem{}); err != nil {
			return nil, nil, err
		}
	}
	data, err = outcomePacking.pack(c)
	return data, texts, err
}

// restore puts the texts of the i-th item of texts back into their rows.
func (c *chunkState) restore(i int, texts textItem) {
	for j, w := range c.Rows {
		if w.Moved == i+1 {
			c.Rows[j].text = texts[w.Position]
		}
	}
}
