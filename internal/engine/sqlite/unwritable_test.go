package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
)

// TestADiskThatIsFullIsNamedAndLeftBehind: calls fail with the cause, what was there stays,
// and calls succeed again once there is room. A limit on pages stands in for the disk: SQLite
// answers SQLITE_FULL to both.
func TestADiskThatIsFullIsNamedAndLeftBehind(t *testing.T) {
	for name, c := range map[string]struct {
		begin, end string
		cause      error
	}{
		"full":      {"PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000", table.ErrDiskFull},
		"read-only": {"PRAGMA query_only = 1", "PRAGMA query_only = 0", table.ErrReadOnly},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t)
			e := openAt(t, path, Options{})
			q := e.Queue(queue.Normal)
			if err := q.Send(t.Context(), queue.Message{Body: "before"}); err != nil {
				t.Fatal(err)
			}
			pragma := func(text string) {
				t.Helper()
				// Within the writer's transaction it would be refused or undone.
				e.writer.stop()
				if err := e.writer.session.script(text); err != nil {
					t.Fatal(err)
				}
				e.writer = newWriter(e.writer.session, path, e.wake)
			}
			pragma(c.begin)
			large := queue.Message{Body: strings.Repeat("x", 200_000)}
			for range 3 {
				if err := q.Send(t.Context(), large); !errors.Is(err, c.cause) {
					t.Errorf("a message: %v", err)
				}
				it := table.Item{Key: table.Key{PK: "a", SK: "b"}, Data: []byte(large.Body)}
				if err := e.Table().Put(t.Context(), it, table.Cond{}); !errors.Is(err, c.cause) {
					t.Errorf("an item: %v", err)
				}
			}
			pragma(c.end)
			if err := q.Send(t.Context(), queue.Message{Body: "after"}); err != nil {
				t.Errorf("after it: %v", err)
			}
			if got := receive(t, q, queue.ReceiveOptions{Max: 10}); bodies(got) != "before after" {
				t.Errorf("received %q", bodies(got))
			}
			if f, err := Inspect(t.Context(), path); err != nil || f.Err() != nil {
				t.Errorf("the file's findings are %+v, error %v; want none", f, err)
			}
		})
	}
}

// coded is an error of SQLite.
type coded int

func (c coded) Error() string { return fmt.Sprintf("code %d", int(c)) }
func (c coded) Code() int     { return int(c) }

// TestAnErrorOfInputOrOutputIsNamedByItsCause: SQLite answers SQLITE_IOERR_WRITE where a file
// system has become read-only below it, as after an error of its disk.
func TestAnErrorOfInputOrOutputIsNamedByItsCause(t *testing.T) {
	refused := func(e syscall.Errno) error { return &fs.PathError{Op: "open", Path: "probe", Err: e} }
	for _, c := range []struct {
		code  coded
		tried error
		want  error
	}{
		{sqlite3.SQLITE_IOERR_WRITE, refused(syscall.EROFS), table.ErrReadOnly},
		{sqlite3.SQLITE_CANTOPEN, refused(syscall.EROFS), table.ErrReadOnly},
		{sqlite3.SQLITE_IOERR_SHMSIZE, refused(syscall.ENOSPC), table.ErrDiskFull},
		{sqlite3.SQLITE_IOERR_WRITE, refused(syscall.EDQUOT), table.ErrDiskFull},
		{sqlite3.SQLITE_IOERR_WRITE, refused(syscall.EIO), nil},
		{sqlite3.SQLITE_IOERR_WRITE, nil, nil},
		{sqlite3.SQLITE_CONSTRAINT, refused(syscall.EROFS), nil},
	} {
		got := unwritable(fmt.Errorf("commit: %w", c.code), func() error { return c.tried })
		for _, cause := range []error{table.ErrReadOnly, table.ErrDiskFull} {
			if errors.Is(got, cause) != (cause == c.want) || !errors.Is(got, c.code) {
				t.Errorf("%v where a file beside it answers %v: %v", c.code, c.tried, got)
			}
		}
	}
}

// TestAFolderThatCannotBeWrittenToIsNamedAtStart: SQLite says "unable to open database file"
// (14), or "attempt to write a readonly database" (1544), and names no folder.
func TestAFolderThatCannotBeWrittenToIsNamedAtStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "fedpost.db")
	for _, code := range []coded{sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY_DIRECTORY} {
		err := cannotOpen(path, code)
		if !errors.Is(err, code) || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "mount it for writing") {
			t.Errorf("the error is %v, want one that names %s and what to do", err, path)
		}
	}
	if err := cannotOpen(path, coded(sqlite3.SQLITE_CORRUPT)); err != coded(sqlite3.SQLITE_CORRUPT) {
		t.Errorf("an error of another kind becomes %v", err)
	}
}

// TestAProbeLeavesNothingBehind, and says why a folder takes no file.
func TestAProbeLeavesNothingBehind(t *testing.T) {
	folder := t.TempDir()
	if err := writeBeside(filepath.Join(folder, "fedpost.db")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := writeBeside(filepath.Join(folder, "nowhere", "fedpost.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
