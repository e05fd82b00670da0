package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// readSessions is how many reads run at a time beside the writer.
const readSessions = 4

// pragmas of every connection. FULL makes each commit wait for the disk, on which
// every 202 relies. The fullfsync pragmas do the same on macOS, where fsync does
// not reach the platter. Sweep gives the space of deleted messages back to the
// disk.
var pragmas = []string{
	"busy_timeout(5000)",
	"auto_vacuum(incremental)",
	"journal_mode(wal)",
	"synchronous(full)",
	"fullfsync(1)",
	"checkpoint_fullfsync(1)",
	"temp_store(memory)",
	fmt.Sprintf("journal_size_limit(%d)", logLimit),
}

// Pages in memory, in KiB. The writer keeps what it wrote last, which most reads need. A
// reader of old records would fill any cache with pages that are not read again; the
// system caches those, too.
const (
	writerCache = "cache_size(-16000)"
	readerCache = "cache_size(-2000)"
)

func (e *Engine) open(path string) error {
	pragmas := slices.Clip(pragmas)
	source := "file::memory:?" + options(append(pragmas, writerCache)...)
	if path != Memory {
		var err error
		if path, err = real(path); err != nil {
			return err
		}
		if e.release, err = Lock(path); err != nil {
			return err
		}
		if err := create(path); err != nil {
			return err
		}
		if source, err = uri(path, append(pragmas, writerCache)...); err != nil {
			return err
		}
	}
	main, err := newSession(source)
	if err != nil {
		return err
	}
	if err = migrate(main); err == nil {
		err = retype(main, e.typ)
	}
	if err != nil {
		return errors.Join(err, main.close())
	}
	e.writer = newWriter(main, path, e.wake)
	if path == Memory {
		return nil
	}
	if source, err = uri(path, append(pragmas, readerCache)...); err != nil {
		return err
	}
	e.readers = newReaders()
	for range readSessions {
		s, err := newSession(source)
		if err != nil {
			return err
		}
		e.readers.add(s)
	}
	return nil
}

const LockSuffix = ".lock"

// ErrInUse says that another process has a data file.
var ErrInUse = errors.New("the data folder is in use")

// Lock makes sure that one process has the file at path, which need not exist, until release
// is called. If another process has the file, the error wraps ErrInUse. A second writer
// would be safe, because of SQLite's own locks, but its receivers would not wake up for
// messages that the first process sends. The lock is an exclusive transaction on an empty
// database beside the file: it works on every system that SQLite knows, and it goes with
// the process however that ends. The file of the lock stays.
func Lock(path string) (release func() error, err error) {
	path += LockSuffix
	if err := create(path); err != nil {
		return nil, err
	}
	source, err := uri(path, "busy_timeout(0)", "journal_mode(memory)")
	if err != nil {
		return nil, err
	}
	s, err := newSession(source)
	if err != nil {
		return nil, busy(err)
	}
	if err := s.exec("BEGIN EXCLUSIVE"); err != nil {
		return nil, errors.Join(busy(err), s.close())
	}
	return s.close, nil
}

// busy adds what to do to an error that means that the file is in use.
func busy(err error) error {
	if se, ok := errors.AsType[*sqlite.Error](err); ok && se.Code()&0xff == sqlite3.SQLITE_BUSY {
		return fmt.Errorf("%w: stop the fedpost that runs on it, or wait until a restore of it has ended, or choose another data folder (%w)", ErrInUse, err)
	}
	return err
}

// cannotOpen adds why a data folder cannot be written to, which SQLite does not say: a file
// system that is read-only, or a missing permission.
func cannotOpen(path string, err error) error {
	var se interface{ Code() int }
	if path == Memory || !errors.As(err, &se) {
		return err
	}
	if code := se.Code() & 0xff; code != sqlite3.SQLITE_CANTOPEN && code != sqlite3.SQLITE_READONLY {
		return err
	}
	if cause := writable(path); cause != nil {
		return fmt.Errorf("%w: fedpost has to write to this folder and its files: mount it for writing, or give them to the user that fedpost runs as (%w)", cause, err)
	}
	return err
}

// writable returns why the files of a data file, or new ones beside them, cannot be written.
func writable(path string) error {
	for _, name := range []string{path + LockSuffix, path} {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return err
		}
	}
	return writeBeside(path)
}

// real returns the path that symbolic links lead to, also if the file does not
// exist yet: the lock must be beside the file itself, by whichever path a process
// opens the file.
func real(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return resolved, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, filepath.Base(path))
	target, err := os.Readlink(path)
	if err != nil {
		return path, nil // there is nothing, not even a link
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(dir, target)
	}
	return real(target)
}

// create makes the file at path if it is missing, readable by its owner only:
// SQLite itself would let everybody read other people's posts. SQLite's other
// files inherit the permissions. An existing file is not even opened, because
// closing it would drop the POSIX locks that this process holds on it.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// uri is a file's name for SQLite, whatever characters its path has.
func uri(path string, pragmas ...string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	abs = filepath.ToSlash(abs)
	if !strings.HasPrefix(abs, "/") {
		abs = "/" + abs // a drive letter
	}
	u := url.URL{Scheme: "file", Path: abs, RawQuery: options(pragmas...)}
	return u.String(), nil
}

func options(pragmas ...string) string { return url.Values{"_pragma": pragmas}.Encode() }
