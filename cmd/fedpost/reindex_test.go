package main

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"fedpost/internal/app/local"
	"fedpost/internal/engine/sqlite"
	tables "fedpost/internal/engine/table"
)

// TestUpIndexesDeadLettersOfEarlierVersions when it starts; package store has what that does.
func TestUpIndexesDeadLettersOfEarlierVersions(t *testing.T) {
	t.Setenv("FEDPOST_API_TOKEN", token)
	dir := t.TempDir()
	f, err := start(t.Context(), dir, local.ListenConfig{Listen: "127.0.0.1:0"}, true, func(*settings) {}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.stop(nil, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	engine, err := sqlite.Open(t.Context(), filepath.Join(dir, local.Database), sqlite.Options{Queues: queues()})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	mark := tables.Key{PK: "DH#", SK: "INDEXED"}
	if found, err := engine.Table().Get(t.Context(), mark); err != nil || len(found) != 1 {
		t.Errorf("after a start: %v, %v", found, err)
	}
}
