package local

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fedpost/internal/engine/sqlite"
)

// Files of a data folder.
const (
	Database   = "fedpost.db"  // the embedded engine's file
	SealingKey = "sealing.key" // seals signing keys; only the database's own key opens them
)

// Errors of backups.
var (
	ErrNotBackup = errors.New("this is no whole backup of fedpost")
	ErrNotEmpty  = errors.New("the data folder is not empty")
)

// Backup writes the data folder, as it is at one moment, into a new file that only its
// owner can read: a tar archive of the database and of the file sealingKey. The folder may
// be in use. The file appears once it is whole and on the disk.
func Backup(ctx context.Context, folder, sealingKey, file string) (err error) {
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("write a backup to %s: %w", file, fs.ErrExist)
	}
	copied, err := os.CreateTemp(filepath.Dir(file), ".fedpost-copy-*") // CreateTemp's mode is 0600
	if err != nil {
		return fmt.Errorf("write a backup: %w", err)
	}
	defer func() { err = errors.Join(err, copied.Close(), os.Remove(copied.Name())) }()
	if err := sqlite.Copy(ctx, filepath.Join(folder, Database), copied.Name()); err != nil {
		return err
	}
	key, err := os.ReadFile(sealingKey)
	if err != nil {
		return fmt.Errorf("read the sealing key, without which a backup is worth little: %w", err)
	}
	if err := CheckSealingKey(ctx, copied.Name(), sealingKey); err != nil {
		return err
	}
	if err := WriteWhole(file, func(to *os.File) error { return archive(to, key, copied) }); err != nil {
		return fmt.Errorf("write a backup to %s: %w", file, err)
	}
	return nil
}

// WriteWhole makes a new file that only its owner can read. The file appears, once it is
// whole and on the disk, and replaces none.
func WriteWhole(file string, write func(*os.File) error) error {
	if _, err := os.Lstat(file); err == nil {
		return fs.ErrExist
	}
	partial, err := os.CreateTemp(filepath.Dir(file), ".fedpost-partial-*") // CreateTemp's mode is 0600
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
	if err = errors.Join(err, discard(partial.Name())); err != nil {
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

// archive writes the files of a backup, the key first.
func archive(to *os.File, key []byte, database *os.File) error {
	info, err := database.Stat()
	if err != nil {
		return err
	}
	w := tar.NewWriter(to)
	if err := w.WriteHeader(&tar.Header{Name: SealingKey, Mode: 0o600, Size: int64(len(key)), ModTime: info.ModTime()}); err != nil {
		return err
	}
	if _, err := w.Write(key); err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: Database, Mode: 0o600, Size: info.Size(), ModTime: info.ModTime()}); err != nil {
		return err
	}
	if _, err := io.Copy(w, database); err != nil {
		return err
	}
	return w.Close()
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
// visible. The folder must be empty, or missing: what a running fedpost has open, or what
// somebody may still need, is never written over.
func Restore(ctx context.Context, file, folder string) (found sqlite.Found, err error) {
	from, err := os.Open(file)
	if err != nil {
		return found, fmt.Errorf("read the backup: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return found, fmt.Errorf("data folder: %w", err)
	}
	if err := empty(folder); err != nil {
		return found, err
	}
	key, database := filepath.Join(folder, SealingKey), filepath.Join(folder, Database)
	defer func() {
		if err != nil {
			err = errors.Join(err, discard(key+restoring), discard(database+restoring), discard(filepath.Join(folder, readers)))
		}
	}()
	if err := unpack(from, map[string]string{SealingKey: key + restoring, Database: database + restoring}); err != nil {
		return found, fmt.Errorf("restore %s: %w", file, err)
	}
	if found, err = sqlite.Inspect(ctx, database+restoring); err != nil {
		return found, fmt.Errorf("restore %s: %w", file, err)
	}
	if err := found.Err(); err != nil {
		return found, fmt.Errorf("restore %s: %w", file, err)
	}
	if err := CheckSealingKey(ctx, database+restoring, key+restoring); err != nil {
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

// empty returns an error if a folder has anything but what a restore has left.
func empty(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), restoring) && e.Name() != "lost+found" {
			return fmt.Errorf("%w: %s has %s; stop fedpost if it runs on it, and move the folder away", ErrNotEmpty, folder, e.Name())
		}
	}
	return nil
}

// unpack writes each file of an archive to its place. All have to be there, once.
func unpack(from io.Reader, places map[string]string) error {
	r := tar.NewReader(from)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) && len(places) == 0 {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: it lacks a file", ErrNotBackup)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotBackup, err)
		}
		place, ok := places[h.Name]
		if !ok || h.Typeflag != tar.TypeReg {
			return fmt.Errorf("%w: it has %q", ErrNotBackup, h.Name)
		}
		delete(places, h.Name)
		if err := write(place, r); errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: it is cut off: %w", ErrNotBackup, err)
		} else if err != nil {
			return err
		}
	}
}

func write(place string, from io.Reader) error {
	// What is there may be a link, or have another mode.
	if err := discard(place); err != nil {
		return err
	}
	f, err := os.OpenFile(place, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Sync(), f.Close())
}

func discard(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
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
