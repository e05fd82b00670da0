package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fedpost/internal/app/config"
	"fedpost/internal/engine/outbox"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/keys"
	"fedpost/internal/ledger/events"
	"fedpost/internal/testkit/memory"
)

// failing is a table and its queues, which fail when a test says so, and the time.
type failing struct {
	table.Table
	down, panics bool
	now          time.Time
}

var errAway = errors.New("the table is away")

func (f *failing) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	if f.down {
		return errAway
	}
	return f.Table.Put(ctx, it, cond)
}

func (f *failing) Transact(ctx context.Context, ops []table.Op) error {
	if f.down {
		return errAway
	}
	return f.Table.Transact(ctx, ops)
}

// rowsWorld is what accepts rows, with a signing key.
func rowsWorld(t *testing.T) (*failing, Ports, outbox.Accept) {
	t.Helper()
	f := &failing{now: time.Now()}
	now := func() time.Time { return f.now }
	engine := memory.New(now, nil)
	f.Table = engine.Table()
	sealer, err := keys.OpenLocalSealer(filepath.Join(t.TempDir(), "sealing.key"))
	if err != nil {
		t.Fatal(err)
	}
	p := Ports{Table: f, Sealer: sealer, Log: slog.New(slog.DiscardHandler), Now: now}
	p.Keys = p.NewRing()
	if _, err := p.Keys.Generate(t.Context(), "https://a.example/u#key", keys.Ed25519); err != nil {
		t.Fatal(err)
	}
	p.Queue = func(n queue.Name) queue.Queue { return panicking{engine.Queue(n), f} }
	var settings config.Local
	if err := config.From(&settings, nil); err != nil {
		t.Fatal(err)
	}
	accept, err := Outbox(settings.Enqueue(), p)
	if err != nil {
		t.Fatal(err)
	}
	return f, p, accept
}

// panicking is a queue that panics.
type panicking struct {
	queue.Queue
	f *failing
}

func (q panicking) Send(ctx context.Context, m queue.Message) error {
	if q.f.panics {
		panic("a mistake in the program")
	}
	return q.Queue.Send(ctx, m)
}

// rowOf is a row with a request that asks for one recipient.
func rowOf(id int64, further string) outbox.Row {
	return outbox.Row{ID: id, Created: time.Now(), Request: fmt.Sprintf(
		`{"activity":{"id":"https://a.example/%d","type":"Like","actor":"https://a.example/u"},"keyId":"https://a.example/u#key","recipients":["https://b.example/inbox"]%s}`, id, further)}
}

func TestARowThatComesAgainIsTheSameActivity(t *testing.T) {
	_, _, accept := rowsWorld(t)
	key := "k"
	keyed := rowOf(2, "")
	keyed.Key = &key
	rows := []outbox.Row{rowOf(1, ""), keyed, rowOf(3, `,"orderingKey":"o","deduplicationKey":"x"`)}
	first := accept(t.Context(), rows)
	again := accept(t.Context(), rows)
	for i, v := range first {
		if v.Activity == "" || again[i].Activity != v.Activity {
			t.Errorf("row %d: %+v, then %+v; want one activity", i, v, again[i])
		}
	}
	other := rowOf(1, "")
	other.Created = other.Created.Add(time.Hour)
	if v := accept(t.Context(), []outbox.Row{other})[0]; v.Activity == "" || v.Activity == first[0].Activity {
		t.Errorf("a row of another time with the same number: %+v, want another activity than %+v", v, first[0])
	}
}

func TestRowsOfOneKeyAreAcceptedOneAfterTheOther(t *testing.T) {
	key := "x"
	rows := []outbox.Row{
		rowOf(0, `,"orderingKey":"o"`),
		{Request: `{`},
		rowOf(2, ""), rowOf(3, `,"orderingKey":"o"`), rowOf(4, ""),
		{Key: &key, Request: `{}`},
		rowOf(6, `,"deduplicationKey":"x"`), rowOf(7, `,"orderingKey":"x"`),
		{Request: `{`},
	}
	if got, want := fmt.Sprint(byOrder(rows)), "[[0 3] [1] [2] [4] [5 6] [7] [8]]"; got != want {
		t.Errorf("rows are accepted as %s, want %s", got, want)
	}
}

func TestAnOutageKeepsRowsWaiting(t *testing.T) {
	f, _, accept := rowsWorld(t)
	f.down = true
	rows := []outbox.Row{rowOf(1, `,"orderingKey":"o"`), {ID: 2, Request: `{`}, rowOf(3, `,"orderingKey":"o"`)}
	got := accept(t.Context(), rows)
	for i, v := range got {
		if v.Activity != "" || v.Problem != "" || v.Tried {
			t.Errorf("row %d during an outage: %+v, want that it waits and no try is counted", i, v)
		}
	}
	f.down = false
	if got = accept(t.Context(), rows); got[0].Activity == "" || got[1].Problem == "" || got[2].Activity == "" {
		t.Errorf("after the outage: %+v, want two activities and a refusal", got)
	}
}

func TestARefusalHasTheAPIsProblemAndOneEvent(t *testing.T) {
	_, p, accept := rowsWorld(t)
	wrong, key := rowOf(1, `,"delya":"PT1H"`), "row's"
	differs := rowOf(2, `,"deduplicationKey":"request's"`)
	differs.Key = &key
	rows := []outbox.Row{wrong, differs}
	for range 2 {
		for i, says := range []string{"#/delya", "differs from the row's deduplication_key"} {
			if v := accept(t.Context(), rows)[i]; !strings.Contains(v.Problem, says) || !strings.Contains(v.Problem, "invalid-request") {
				t.Errorf("row %d: problem %s, want one with %q", i, v.Problem, says)
			}
		}
	}
	page, err := events.Feed{Store: p.store()}.Read(t.Context(), events.Query{Limit: 100})
	if err != nil || len(page.Events) != 2 {
		t.Errorf("%d events, error %v; want one for each row", len(page.Events), err)
	}
}

// TestAMistakeInTheProgramRefusesARowInTheEnd: such a row must not hold up all others.
func TestAMistakeInTheProgramRefusesARowInTheEnd(t *testing.T) {
	f, _, accept := rowsWorld(t)
	f.panics = true
	row := rowOf(1, "")
	for row.Tries < rowTries-1 {
		if v := accept(t.Context(), []outbox.Row{row})[0]; v.Activity != "" || v.Problem != "" || !v.Tried {
			t.Fatalf("try %d: %+v, want another one", row.Tries, v)
		}
		row.Tries++
		f.now = f.now.Add(time.Minute) // the lease on its key ends
	}
	if v := accept(t.Context(), []outbox.Row{row})[0]; !strings.Contains(v.Problem, "500") {
		t.Errorf("the last try: %+v, want the problem of a 500", v)
	}
}
