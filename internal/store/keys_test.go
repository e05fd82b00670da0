package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
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
	engine *sqlite.Engine
	read   []string
}

func (w *watched) Get(ctx context.Context, all ...table.Key) (map[table.Key]table.Item, error) {
	for _, k := range all {
		w.read = append(w.read, k.PK)
	}
	return w.Table.Get(ctx, all...)
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	e := embedded(t, sqlite.Options{})
	return &watched{Table: e.Table(), engine: e}
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

// TestKeysOfAnEarlierVersionAreListedOnce: versions without a list of keys stored two items,
// and the first ones one. Both are listed and exported after the first start of this version.
func TestKeysOfAnEarlierVersionAreListedOnce(t *testing.T) {
	w := newWatched(t)
	s := store.New(w, time.Now)
	old, err := json.Marshal(sealed("oldest"))
	if err != nil {
		t.Fatal(err)
	}
	proof := sealed("")
	for _, k := range []keys.Sealed{proof, sealed("https://a.example/u#main-key"), sealed("listed")} {
		if err := s.PutKey(t.Context(), k, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Put(t.Context(), table.Item{Key: table.Key{PK: "K#oldest", SK: "KEY"}, Data: old}, table.Cond{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(t.Context(), table.Key{PK: "KI#", SK: "https://a.example/u#main-key"}, table.Cond{}); err != nil {
		t.Fatal(err)
	}
	listed := func() (ids []string) {
		ks, _, err := s.ListKeys(t.Context(), "", 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range ks {
			if ids = append(ids, k.ID); k.PublicPEM != "public" || k.Type != keys.Ed25519 {
				t.Errorf("%s is listed as %+v", k.ID, k)
			}
		}
		return ids
	}
	if got := listed(); !slices.Equal(got, []string{"listed"}) {
		t.Fatalf("listed before: %q", got)
	}
	for _, want := range []int{2, 0} {
		if n, err := s.IndexKeys(t.Context(), w.engine.Partitions); n != want || err != nil {
			t.Errorf("%d keys were not listed, %v; want %d", n, err, want)
		}
	}
	if got, want := listed(), []string{"https://a.example/u#main-key", "listed", "oldest"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	items, _, err := w.Query(t.Context(), table.Range{PK: "KI#"})
	for _, it := range items {
		if strings.Contains(string(it.Data), "sealed") {
			t.Errorf("the list has a sealed half: %s, %v", it.Data, err)
		}
	}
}

// A data folder from before keys were split goes on working.
func TestAKeyInOneItemIsReadAndSplitWhenItIsPut(t *testing.T) {
	w := newWatched(t)
	s := store.New(w, time.Now)
	old, err := json.Marshal(sealed("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Put(t.Context(), table.Item{Key: table.Key{PK: "K#a", SK: "KEY"}, Data: old}, table.Cond{}); err != nil {
		t.Fatal(err)
	}
	if k, err := s.Key(t.Context(), "a"); err != nil || string(k.Private) != "sealed" || k.PublicPEM != "public" {
		t.Errorf("got %+v, %v", k, err)
	}
	if k, err := s.PublicKey(t.Context(), "a"); err != nil || k.PublicPEM != "public" {
		t.Errorf("public half: got %+v, %v", k, err)
	}
	if err := s.PutKey(t.Context(), sealed("a"), false); !errors.Is(err, keys.ErrExists) {
		t.Errorf("a new key over the old: %v", err)
	}
	next := sealed("a")
	next.PublicPEM, next.Private = "other", []byte("next")
	if err := s.PutKey(t.Context(), next, true); err != nil {
		t.Fatal(err)
	}
	if k, err := s.Key(t.Context(), "a"); err != nil || string(k.Private) != "next" {
		t.Errorf("got %+v, %v", k, err)
	}
	item, err := w.Table.Get(t.Context(), table.Key{PK: "K#a", SK: "KEY"})
	if err != nil || strings.Contains(string(item[table.Key{PK: "K#a", SK: "KEY"}].Data), "sealed") {
		t.Errorf("the public item has a sealed half: %v, %v", item, err)
	}
}
