package local

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"fedpost/internal/app/progress"
)

// Checksums is the first file of a backup: the SHA-256 of each other file, in the format of
// sha256sum. It comes first, so that an archive that was cut off after a whole file is
// recognised.
const Checksums = "SHA256SUMS"

// mostChecksums is the largest size of the checksums, in bytes.
const mostChecksums = 1 << 10

// archive writes the files of a backup: the checksums, the key, the database.
func archive(ctx context.Context, to io.Writer, key []byte, database *os.File) error {
	info, err := database.Stat()
	if err != nil {
		return err
	}
	progress.Begin(ctx, "computing its checksum", progress.Of(database))
	sum := sha256.New()
	if _, err := io.Copy(sum, database); err != nil {
		return err
	}
	if _, err := database.Seek(0, io.SeekStart); err != nil {
		return err
	}
	progress.Begin(ctx, "writing the backup", progress.Of(database))
	sums := fmt.Sprintf("%x  %s\n%x  %s\n", sha256.Sum256(key), SealingKey, sum.Sum(nil), Database)
	w := tar.NewWriter(to)
	if err := member(w, Checksums, strings.NewReader(sums), int64(len(sums)), info.ModTime()); err != nil {
		return err
	}
	if err := member(w, SealingKey, bytes.NewReader(key), int64(len(key)), info.ModTime()); err != nil {
		return err
	}
	if err := member(w, Database, database, info.Size(), info.ModTime()); err != nil {
		return err
	}
	return w.Close()
}

func member(w *tar.Writer, name string, content io.Reader, size int64, at time.Time) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: at}); err != nil {
		return err
	}
	_, err := io.Copy(w, content)
	return err
}

// unpack writes the files of an archive to paths, by name. Each must be there once. verified
// reports whether their checksums were compared; archives of earlier versions have none.
func unpack(from io.Reader, paths map[string]string) (verified bool, err error) {
	r := tar.NewReader(from)
	var sums map[string]string
	for first := true; ; first = false {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF) && len(paths) == 0:
			return sums != nil, nil
		case errors.Is(err, io.EOF):
			return false, fmt.Errorf("%w: a file is missing", ErrNotBackup)
		case err != nil:
			return false, fmt.Errorf("%w: %w", ErrNotBackup, err)
		}
		if first && h.Name == Checksums {
			if sums, err = checksums(r, paths); err != nil {
				return false, err
			}
			continue
		}
		path, ok := paths[h.Name]
		if !ok || h.Typeflag != tar.TypeReg {
			return false, fmt.Errorf("%w: it contains the unknown file %q", ErrNotBackup, h.Name)
		}
		delete(paths, h.Name)
		sum := sha256.New()
		if err := write(path, io.TeeReader(r, sum)); errors.Is(err, io.ErrUnexpectedEOF) {
			return false, fmt.Errorf("%w: it is cut off: %w", ErrNotBackup, err)
		} else if err != nil {
			return false, err
		}
		if got := string(sum.Sum(nil)); sums != nil && got != sums[h.Name] {
			return false, fmt.Errorf("%w: %s has changed since the backup was made; use another backup", ErrDamagedBackup, h.Name)
		}
	}
}

// checksums reads the checksums of an archive, by file. It must have those of all paths.
func checksums(from io.Reader, paths map[string]string) (map[string]string, error) {
	text, err := io.ReadAll(io.LimitReader(from, mostChecksums))
	if err != nil {
		return nil, fmt.Errorf("%w: read its checksums: %w", ErrNotBackup, err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		digits, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		sum, err := hex.DecodeString(digits)
		if _, known := paths[name]; err != nil || !ok || !known || len(sum) != sha256.Size {
			return nil, fmt.Errorf("%w: %s has the line %q", ErrDamagedBackup, Checksums, line)
		}
		sums[name] = string(sum)
	}
	if len(sums) != len(paths) {
		return nil, fmt.Errorf("%w: %s has %d files, not %d", ErrDamagedBackup, Checksums, len(sums), len(paths))
	}
	return sums, nil
}

func write(path string, from io.Reader) error {
	// A file that exists may be a link, or have another mode.
	if err := discard(path); err != nil {
		return err
	}
	f, err := newFile(path)
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
