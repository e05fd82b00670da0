package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"fedpost/internal/engine/table"
)

// TestAFileIsReadBesideItsFedpost, of whatever earlier schema, and never written.
func TestAFileIsReadBesideItsFedpost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fedpost.db")
	e, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	key := table.Key{PK: "a", SK: "b"}
	put := func(data string) {
		t.Helper()
		if err := e.Table().Put(t.Context(), table.Item{Key: key, Data: []byte(data)}, table.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	put("one")
	r, err := OpenToRead(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{"one", "two"} {
		put(data)
		got, err := r.Table().Get(t.Context(), key)
		if err != nil || string(got[key].Data) != data {
			t.Errorf("read %q, %v, want %s", got[key].Data, err, data)
		}
	}
	if err := r.Table().Put(t.Context(), table.Item{Key: key}, table.Cond{}); !errors.Is(err, table.ErrReadOnly) {
		t.Errorf("wrote: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	put("three") // the other has not ended anything
}

func TestWhatIsNoFileOfFedpostIsNotRead(t *testing.T) {
	folder := t.TempDir()
	for name, want := range map[string]error{"missing": fs.ErrNotExist, "empty": ErrDamaged, "noise": ErrDamaged, "other": ErrDamaged, "newer": ErrNewer} {
		path := filepath.Join(folder, name)
		switch name {
		case "empty":
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		case "noise":
			if err := os.WriteFile(path, []byte("noise"), 0o600); err != nil {
				t.Fatal(err)
			}
		case "other", "newer":
			s, err := newSession("file:" + path)
			if err != nil {
				t.Fatal(err)
			}
			script := "CREATE TABLE a (b)"
			if name == "newer" {
				script = "CREATE TABLE a (b); PRAGMA user_version = 1000"
			}
			if err := errors.Join(s.script(script), s.close()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := OpenToRead(t.Context(), path); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
