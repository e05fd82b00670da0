package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fedpost/internal/app/progress"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/keys"
	"fedpost/internal/store"
)

// Files of a data folder.
const (
	Database   = "fedpost.db"  // the embedded engine's file
	SealingKey = "sealing.key" // seals signing keys; only the database's own key opens them
)

// Errors of backups.
var (
	ErrNotBackup     = errors.New("this is not a complete backup of fedpost")
	ErrDamagedBackup = errors.New("the backup is damaged")
	ErrNotEmpty      = errors.New("the data folder is not empty")
)

type Contents struct {
	sqlite.Found
	// Verified: the checksums were compared. Backups of earlier versions have none.
	Verified bool `json:"verified"`
}

// Backup writes a snapshot of the data folder, which may be in use, into a new file that only
// its owner can read: a tar archive of the database and of the file sealingKey, with checksums.
// The file appears when it is complete and on the disk.
func Backup(ctx context.Context, folder, sealingKey, file string) (err error) {
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("write a backup to %s: %w", file, fs.ErrExist)
	}
	unfinished, remove, err := scratch(filepath.Dir(file))
	if err != nil {
		return fmt.Errorf("write a backup: %w", err)
	}
	defer func() { err = errors.Join(err, remove()) }()
	copied, err := newFile(filepath.Join(unfinished, Database))
	if err != nil {
		return fmt.Errorf("write a backup: %w", err)
	}
	defer func() { err = errors.Join(err, copied.Close()) }()
	database := filepath.Join(folder, Database)
	progress.Begin(ctx, "copying the database", func() (done, all int64) { return size(copied.Name()), size(database) })
	if err := sqlite.Copy(ctx, database, copied.Name()); err != nil {
		return err
	}
	key, err := os.ReadFile(sealingKey)
	if err != nil {
		return fmt.Errorf("read the sealing key, without which a backup is useless: %w", err)
	}
	if err := CheckSealingKey(ctx, copied.Name(), sealingKey); err != nil {
		return err
	}
	if err := WriteWhole(file, func(to *os.File) error { return archive(ctx, to, key, copied) }); err != nil {
		return fmt.Errorf("write a backup to %s: %w", file, err)
	}
	return nil
}

// size is the current size of a file in bytes; 0 if it is not known.
func size(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// WriteWhole makes a new file that only its owner can read. It appears when it is complete and
// on the disk, and replaces no other file.
func WriteWhole(file string, write func(*os.File) error) (err error) {
	if _, err := os.Lstat(file); err == nil {
		return fs.ErrExist
	}
	unfinished, remove, err := scratch(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	partial, err := newFile(filepath.Join(unfinished, "partial"))
	if err != nil {
		return err
	}
	err = write(partial)
	if err == nil {
		err = partial.Sync()
	}
	if err = errors.Join(err, partial.Close()); err == nil {
		err = name(partial.Name(), file)
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(file))
}

// name gives a file its final name. A link cannot replace a file, as a rename does, but not
// every file system has links.
func name(partial, file string) error {
	err := os.Link(partial, file)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Rename(partial, file)
}

// restoring is the suffix of files of an unfinished restore. The next restore overwrites them.
const restoring = ".restoring"

// readers is a file that exists after a restore until readers of events were given new
// cursors: theirs may point to events that the restore has undone.
const readers = "events" + restoring

// AfterRestore calls begin if folder was restored and begin has not succeeded since.
func AfterRestore(folder string, begin func() error) error {
	mark := filepath.Join(folder, readers)
	if _, err := os.Lstat(mark); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("find out whether %s was restored: %w", folder, err)
	}
	if err := begin(); err != nil {
		return err
	}
	return discard(mark)
}

// ErrHalfRestored says that a restore was killed. A start would make an empty database.
var ErrHalfRestored = errors.New("a restore was cut off")

// CheckRestored returns an error if a restore into folder is under way, which wraps
// sqlite.ErrInUse, or was killed, which wraps ErrHalfRestored.
func CheckRestored(folder string) (err error) {
	database := filepath.Join(folder, Database)
	if _, err := os.Lstat(database + restoring); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	release, err := sqlite.Lock(database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if _, err := os.Lstat(database); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w: restore into %s again, or remove %s to begin with an empty database", ErrHalfRestored, folder, database+restoring)
}

// Restore writes the data folder of a backup, after a check. The folder must be empty or
// missing: nothing is overwritten. Restore holds the folder's lock; if a fedpost runs on it,
// the error wraps sqlite.ErrInUse.
func Restore(ctx context.Context, file, folder string) (found Contents, err error) {
	from, err := os.Open(file)
	if err != nil {
		return found, fmt.Errorf("read the backup: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return found, fmt.Errorf("data folder: %w", err)
	}
	release, err := sqlite.Lock(filepath.Join(folder, Database))
	if err != nil {
		return found, fmt.Errorf("restore %s into %s: %w", file, folder, err)
	}
	defer func() { err = errors.Join(err, release()) }()
	key, database := filepath.Join(folder, SealingKey), filepath.Join(folder, Database)
	if err := errors.Join(hide(key, database), empty(folder)); err != nil {
		return found, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, discard(key+restoring), discard(database+restoring), discard(filepath.Join(folder, readers)))
		}
	}()
	if found, err = contents(ctx, from, key+restoring, database+restoring); err != nil {
		return found, fmt.Errorf("restore %s: %w", file, err)
	}
	if err := write(filepath.Join(folder, readers), strings.NewReader("")); err != nil {
		return found, fmt.Errorf("restore %s: %w", file, err)
	}
	if err := show(key, database); err != nil {
		return found, fmt.Errorf("restore %s: %w", file, err)
	}
	return found, syncFolder(folder)
}

// CheckBackup checks a backup as Restore does, in a temporary folder.
func CheckBackup(ctx context.Context, file string) (found Contents, err error) {
	from, err := os.Open(file)
	if err != nil {
		return found, fmt.Errorf("read the backup: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	folder, err := os.MkdirTemp("", "fedpost-check-*") // MkdirTemp's mode is 0700
	if err != nil {
		return found, fmt.Errorf("check %s: %w", file, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if found, err = contents(ctx, from, filepath.Join(folder, SealingKey), filepath.Join(folder, Database)); err != nil {
		return found, fmt.Errorf("check %s: %w", file, err)
	}
	return found, nil
}

func contents(ctx context.Context, from *os.File, key, database string) (found Contents, err error) {
	progress.Begin(ctx, "unpacking the backup", progress.Of(from))
	if found.Verified, err = unpack(from, map[string]string{SealingKey: key, Database: database}); err != nil {
		return found, err
	}
	progress.Begin(ctx, "checking the database", nil)
	if found.Found, err = sqlite.Inspect(ctx, database); err != nil {
		return found, err
	}
	if err := found.Err(); err != nil {
		return found, err
	}
	return found, CheckSealingKey(ctx, database, key)
}

// show gives the restored files their names, both or none. The key comes first: fedpost refuses
// to start on a database without it.
func show(key, database string) error {
	if err := os.Rename(key+restoring, key); err != nil {
		return err
	}
	if err := os.Rename(database+restoring, database); err != nil {
		return errors.Join(err, discard(key))
	}
	return nil
}

// hide undoes the first half of show, after which a restore was killed.
func hide(key, database string) error {
	_, err := os.Lstat(database)
	_, half := os.Lstat(database + restoring)
	if !errors.Is(err, fs.ErrNotExist) || half != nil {
		return nil
	}
	if err := os.Rename(key, key+restoring); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// empty returns an error if a folder has files other than the lock and those of a failed restore.
func empty(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), restoring) && e.Name() != Database+sqlite.LockSuffix && e.Name() != "lost+found" {
			return fmt.Errorf("%w: %s has %s; move the folder away, or restore into another one", ErrNotEmpty, folder, e.Name())
		}
	}
	return nil
}

func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// unfinished begins the names of folders with unfinished files.
const unfinished = ".fedpost-unfinished-"

// scratch makes a folder for unfinished files within the folder of the finished ones, as files
// can only be renamed within a file system. Only its owner can read it. It is locked while in
// use, so scratch can remove those of killed processes.
func scratch(in string) (folder string, remove func() error, err error) {
	if err := removeAbandoned(in, time.Now()); err != nil {
		return "", nil, err
	}
	folder, err = os.MkdirTemp(in, unfinished+"*") // MkdirTemp's mode is 0700
	if err != nil {
		return "", nil, err
	}
	release, err := sqlite.Lock(filepath.Join(folder, unfinished))
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(folder))
	}
	return folder, func() error { return errors.Join(release(), os.RemoveAll(folder)) }, nil
}

// unlocked is how long a folder is left alone that may not be locked yet.
const unlocked = time.Minute

func removeAbandoned(in string, now time.Time) error {
	found, err := os.ReadDir(in)
	if err != nil {
		return err
	}
	for _, entry := range found {
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), unfinished) {
			continue
		}
		folder := filepath.Join(in, entry.Name())
		info, err := entry.Info()
		if err != nil || now.Sub(info.ModTime()) < unlocked {
			continue // it has just gone, or has just come
		}
		release, err := sqlite.Lock(filepath.Join(folder, unfinished))
		if errors.Is(err, sqlite.ErrInUse) {
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(release(), os.RemoveAll(folder)); err != nil {
			return err
		}
	}
	return nil
}

// newFile makes a file that only its owner can read.
func newFile(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// CheckSealingKey checks that the file sealingKey opens the signing keys of a database, which
// may be in use. Its errors wrap keys.ErrSealingKeyOther or keys.ErrSealingKeyGone.
func CheckSealingKey(ctx context.Context, database, sealingKey string) (err error) {
	e, err := sqlite.OpenToRead(ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	_, err = keys.ProvenLocalSealer(ctx, keys.SealingKey{File: sealingKey}, store.New(e.Table(), time.Now))
	return err
}
