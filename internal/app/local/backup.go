package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fedpost/internal/app/progress"
	"fedpost/internal/engine/sqlite"
)

// Files of a data folder.
const (
	Database   = "fedpost.db"  // the embedded engine's file
	SealingKey = "sealing.key" // seals signing keys; only the database's own key opens them
)

// Errors of backups.
var (
	ErrNotBackup     = errors.New("this is no whole backup of fedpost")
	ErrDamagedBackup = errors.New("the backup is damaged")
	ErrNotEmpty      = errors.New("the data folder is not empty")
)

// Contents is what was found in a backup.
type Contents struct {
	sqlite.Found
	// Verified says that every byte is as it was when the backup was made, by its checksums.
	// Backups that earlier versions of fedpost have written have none.
	Verified bool `json:"verified"`
}

// Backup writes the data folder, as it is at one moment, into a new file that only its
// owner can read: a tar archive of the database and of the file sealingKey, with checksums. The folder may
// be in use. The file appears once it is whole and on the disk.
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
		return fmt.Errorf("read the sealing key, without which a backup is worth little: %w", err)
	}
	if err := CheckSealingKey(ctx, copied.Name(), sealingKey); err != nil {
		return err
	}
	if err := WriteWhole(file, func(to *os.File) error { return archive(ctx, to, key, copied) }); err != nil {
		return fmt.Errorf("write a backup to %s: %w", file, err)
	}
	return nil
}

// size is how many bytes a file has for now; 0 if that cannot be told.
func size(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// WriteWhole makes a new file that only its owner can read. The file appears, once it is
// whole and on the disk, and replaces none.
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

// name gives a whole file its name. A link, unlike a renaming, does not replace what came
// there meanwhile, but not every file system has links.
func name(partial, file string) error {
	err := os.Link(partial, file)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Rename(partial, file)
}

// restoring is the ending of files that a restore has not finished; what a killed one has
// left is written over.
const restoring = ".restoring"

// readers says, by being there, that readers of events know of a life of this installation that
// a restore has undone.
const readers = "events" + restoring

// AfterRestore calls begin if folder was restored and begin has not succeeded since.
func AfterRestore(folder string, begin func() error) error {
	mark := filepath.Join(folder, readers)
	if _, err := os.Lstat(mark); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("look whether %s was restored: %w", folder, err)
	}
	if err := begin(); err != nil {
		return err
	}
	return discard(mark)
}

// Restore makes the data folder anew that a backup is of, and checks it before it becomes
// visible. The folder must be empty, or missing: what somebody may still need is never
// written over. Restore has the folder's lock until it returns, so no fedpost starts on the
// folder meanwhile; if one runs on it, the error wraps sqlite.ErrInUse.
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
	if err := empty(folder); err != nil {
		return found, err
	}
	key, database := filepath.Join(folder, SealingKey), filepath.Join(folder, Database)
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

// CheckBackup does with a backup all that Restore does before the folder becomes visible, in a
// folder for temporary files that it removes.
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

// contents unpacks a backup into two files and checks them.
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

// show gives the restored files their names, both or none. The key comes first: a database
// without it would be refused at the next start.
func show(key, database string) error {
	if err := os.Rename(key+restoring, key); err != nil {
		return err
	}
	if err := os.Rename(database+restoring, database); err != nil {
		return errors.Join(err, discard(key))
	}
	return nil
}

// empty returns an error if a folder has anything but the lock and what a restore has left.
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

// syncFolder brings the names in a folder to the disk.
func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
