package bench_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpost/internal/app/bench"
)

// TestEachServerOnPostgreSQLHasASchemaOfItsOwn: in one schema, a second server would refuse to
// start, as it cannot open the keys that the first has sealed.
func TestEachServerOnPostgreSQLHasASchemaOfItsOwn(t *testing.T) {
	program := filepath.Join(t.TempDir(), "fedpost")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"fedpost listening on $DATABASE_SCHEMA\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	start := func() string {
		t.Helper()
		s, err := bench.StartServer(t.Context(), program, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		return s.URL
	}
	t.Setenv("DATABASE_URL", "postgres://127.0.0.1/none")
	first, second := start(), start()
	if first == second || !strings.HasPrefix(first, "fedpost_bench_") {
		t.Errorf("the schemas are %q and %q", first, second)
	}
	t.Setenv("DATABASE_URL", "")
	if schema := start(); schema != "" {
		t.Errorf("without a database, the schema is %q", schema)
	}
}
