package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
)

// TestACopyIsOfOneMoment while writers go on: of each transaction it has all or nothing.
func TestACopyIsOfOneMoment(t *testing.T) {
	path := file(t)
	e := openAt(t, path, Options{})
	q := e.Queue(queue.Ordered)
	stop := make(chan struct{})
	begun := make(chan struct{}, 1000)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := strconv.Itoa(w) + "-" + strconv.Itoa(i)
				if err := q.Send(t.Context(), queue.Message{Body: id, OrderingKey: id, DeduplicationKey: id}); err != nil {
					t.Error(err)
					return
				}
				a, b := table.Item{Key: table.Key{PK: "a", SK: id}}, table.Item{Key: table.Key{PK: "b", SK: id}}
				if err := e.Table().Transact(t.Context(), []table.Op{{Put: &a}, {Put: &b}}); err != nil {
					t.Error(err)
					return
				}
				select {
				case begun <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 3 {
		for range 20 {
			<-begun
		}
		into := filepath.Join(t.TempDir(), "copy")
		if err := create(into); err != nil {
			t.Fatal(err)
		}
		if err := Copy(t.Context(), path, into); err != nil {
			t.Fatal(err)
		}
		if f, err := Inspect(t.Context(), path); err != nil || f.Err() != nil {
			t.Errorf("the file in use: %+v, %v", f, err)
		}
		f, err := Inspect(t.Context(), into)
		if err != nil || f.Err() != nil || f.Items == 0 || f.Items%2 != 0 || f.Messages["ordered"] == 0 || f.Schema != schemaVersion || f.Bytes == 0 {
			t.Errorf("the copy: %+v, %v", f, err)
		}
		if info, err := os.Stat(into); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the copy is %v, %v", info.Mode(), err)
		}
		old := openAt(t, into, Options{})
		if got, want := objects(t, old), objects(t, e); !slices.Equal(got, want) {
			t.Errorf("the copy has %v, the file %v", got, want)
		}
	}
	close(stop)
	writers.Wait()
}

// closed is a closed data file with a message and an item, changed by statements.
func closed(t *testing.T, statements string) string {
	t.Helper()
	path := file(t)
	e := openAt(t, path, Options{})
	if err := e.Queue(queue.Ordered).Send(t.Context(), queue.Message{Body: strings.Repeat("body ", 3000), OrderingKey: "g", DeduplicationKey: "d"}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	source, err := uri(path, pragmas...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSession(source)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.script(statements), s.close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnInspectionFindsWhatIsMissing(t *testing.T) {
	for says, statements := range map[string]string{
		"":                                      "SELECT 1",
		"1 messages have no body":               "DELETE FROM body",
		"1 bodies have no message":              "DELETE FROM message; DELETE FROM fifo_group",
		"1 groups with messages are not listed": "DELETE FROM fifo_group",
		"1 listed groups have no message":       "DELETE FROM message; DELETE FROM body",
	} {
		f, err := Inspect(t.Context(), closed(t, statements))
		if err != nil || strings.Join(f.Damage, "; ") != says || (f.Err() != nil) != (says != "") || f.Err() != nil && !errors.Is(f.Err(), ErrDamaged) {
			t.Errorf("after %q: %+v, %v, want %q", statements, f, err, says)
		}
	}
}

// TestAnInspectionFindsDamage, of a single page or of the whole file, and never makes one.
func TestAnInspectionFindsDamage(t *testing.T) {
	damaged := func(change func([]byte) []byte) string {
		path := closed(t, "SELECT 1")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, change(b), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, change := range map[string]func([]byte) []byte{
		"a page of noise": func(b []byte) []byte { copy(b[4*4096:], strings.Repeat("noise", 800)); return b },
		"cut off":         func(b []byte) []byte { return b[:len(b)/2] },
		"no database":     func([]byte) []byte { return []byte(strings.Repeat("text ", 2000)) },
		"empty":           func([]byte) []byte { return nil },
	} {
		f, err := Inspect(t.Context(), damaged(change))
		if err == nil {
			err = f.Err()
		}
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	if _, err := Inspect(t.Context(), closed(t, "PRAGMA user_version = 1000")); !errors.Is(err, ErrNewer) {
		t.Errorf("of a newer fedpost: %v", err)
	}
	if _, err := Inspect(t.Context(), closed(t, "PRAGMA user_version = 0")); !errors.Is(err, ErrDamaged) {
		t.Errorf("of another program: %v", err)
	}
	none := file(t)
	if _, err := Inspect(t.Context(), none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := os.Stat(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file was made: %v", err)
	}
}
