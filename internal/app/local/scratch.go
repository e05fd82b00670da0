package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fedpost/internal/engine/sqlite"
)

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
