package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
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
	"cache_size(-16000)",
	"temp_store(memory)",
}

func (e *Engine) open(path string) error {
	source := "file::memory:?" + options(pragmas...)
	if path != Memory {
		var err error
		if path, err = real(path); err != nil {
			return err
		}
		if e.release, err = lock(path); err != nil {
			return err
		}
		if err := create(path); err != nil {
			return err
		}
		if source, err = uri(path, pragmas...); err != nil {
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
	e.writer = newWriter(main, path)
	if path == Memory {
		return nil
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

// lock makes sure that one process has the file at path: a second writer
// goroutine would be safe, thanks to SQLite's own locks, but its receivers would
// not wake up for messages that the first process sends. The lock is an exclusive transaction
// on an empty database beside the file: it works on every system that SQLite
// knows, and it goes with the process however that ends.
func lock(path string) (release func() error, err error) {
	path += ".lock"
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

// busy says what to do about an error, if it is that the file is in use.
func busy(err error) error {
	var se *sqlite.Error
	if errors.As(err, &se) && se.Code()&0xff == sqlite3.SQLITE_BUSY {
		return fmt.Errorf("it is in use by another fedpost: stop that one, or choose another data directory (%w)", err)
	}
	return err
}

// cannotOpen adds why a file cannot be opened for writing, which SQLite does not say: a file
// system that is read-only, or a missing permission.
func cannotOpen(path string, err error) error {
	var se *sqlite.Error
	if path == Memory || !errors.As(err, &se) || se.Code()&0xff != sqlite3.SQLITE_CANTOPEN {
		return err
	}
	for _, name := range []string{path + ".lock", path} {
		f, cause := os.OpenFile(name, os.O_RDWR, 0)
		if cause != nil {
			return fmt.Errorf("%w (%w)", cause, err)
		}
		if cause := f.Close(); cause != nil {
			return errors.Join(err, cause)
		}
	}
	return err
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
