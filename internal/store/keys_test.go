package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"fedpost/internal/engine/sqlite"
	"fedpost/internal/engine/table"
	"fedpost/internal/keys"
	"fedpost/internal/store"
)

// watched records the partitions that are read.
type watched struct {
	table.Table
	read []string
}

func (w *watched) Get(ctx context.Context, all ...table.Key) (map[table.Key]table.Item, error) {
	for _, k := range all {
		w.read = append(w.read, k.PK)
	}
	return w.Table.Get(ctx, all...)
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	return &watched{Table: embedded(t, sqlite.Options{}).Table()}
}

func sealed(id string) keys.Sealed {
	return keys.Sealed{ID: id, Type: keys.Ed25519, PublicPEM: "public", Private: []byte("sealed"), CreatedAt: time.Unix(1, 0).UTC()}
}

// A role limited to partitions other than KS# cannot read a sealed key.
func TestWhoeverAsksForAPublicHalfReadsNothingSealed(t *testing.T) {
	w := newWatched(t)
	s := store.New(w, time.Now)
	for _, replace := range []bool{false, false, true} { // the second is refused or known again
		if err := s.PutKey(t.Context(), sealed("a"), replace); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.PublicKey(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if len(w.read) == 0 {
		t.Error("nothing was read")
	}
	for _, pk := range w.read {
		if pk != "K#a" {
			t.Errorf("read %s", pk)
		}
	}
	// The prefixes are those that template.yaml denies.
	public, private := table.Key{PK: "K#a", SK: "KEY"}, table.Key{PK: "KS#a", SK: "KEY"}
	items, err := w.Table.Get(t.Context(), public, private)
	const text = "c2VhbGVk" // the sealed half as JSON has it
	if err != nil || strings.Contains(string(items[public].Data), text) || !strings.Contains(string(items[private].Data), text) {
		t.Errorf("the sealed half does not lie apart: %v, %v", items, err)
	}
}
