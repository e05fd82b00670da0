package sqlite

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpost/internal/engine/table"
)

// TestTheWriteAheadLogIsBoundedAndToldWhileItGrows: another process reads the file for long.
func TestTheWriteAheadLogIsBoundedAndToldWhileItGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	var said bytes.Buffer
	e, err := Open(t.Context(), path, Options{Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	write := func(mebibytes int) {
		t.Helper()
		for n := range mebibytes {
			var items []table.Item
			for i := range 4 {
				items = append(items, table.Item{Key: table.Key{PK: "p", SK: fmt.Sprint(n%2, i)}, Data: bytes.Repeat([]byte{byte(n)}, 256<<10)})
			}
			if err := e.Table().PutAll(t.Context(), items); err != nil {
				t.Fatal(err)
			}
		}
	}
	sweep := func(warnings int) {
		t.Helper()
		if err := e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(said.String(), "write-ahead log grows"); n != warnings {
			t.Errorf("it was said %d times that the log grows, want %d: %s", n, warnings, said.String())
		}
	}
	reader, err := openBeside(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := reader.close(); err != nil {
			t.Error(err)
		}
	}()
	begin := func() {
		if err := reader.script("BEGIN; SELECT count(*) FROM item"); err != nil {
			t.Fatal(err)
		}
	}
	end := func(then func()) {
		t.Helper()
		if size() <= logLimit {
			t.Fatalf("the log has %d bytes, which is no test", size())
		}
		if err := reader.script("ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		then()
		if size() > logLimit {
			t.Errorf("the log has %d bytes after the reader, want %d at most", size(), logLimit)
		}
	}
	begin()
	write(80)
	sweep(1)
	sweep(1) // it has not grown since
	write(90)
	sweep(2)
	end(func() { sweep(2) })
	begin()
	write(80)
	end(func() { write(3) }) // nobody sweeps
}
