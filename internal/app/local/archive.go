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

// Checksums is the first file of a backup: the SHA-256 of each of the others, in the form that
// sha256sum writes and checks. It comes first because an archive that is cut off behind its
// last whole file cannot be told from one that never had more.
const Checksums = "SHA256SUMS"

// mostChecksums is more bytes than the checksums of a backup have.
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

// unpack writes each file of an archive to its place. All have to be there, once. It reports
// whether they are what the archive's checksums say; false: it has none, as an earlier fedpost
// wrote it.
func unpack(from io.Reader, places map[string]string) (verified bool, err error) {
	r := tar.NewReader(from)
	var sums map[string]string
	for first := true; ; first = false {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF) && len(places) == 0:
			return sums != nil, nil
		case errors.Is(err, io.EOF):
			return false, fmt.Errorf("%w: it lacks a file", ErrNotBackup)
		case err != nil:
			return false, fmt.Errorf("%w: %w", ErrNotBackup, err)
		}
		if first && h.Name == Checksums {
			if sums, err = checksums(r, places); err != nil {
				return false, err
			}
			continue
		}
		place, ok := places[h.Name]
		if !ok || h.Typeflag != tar.TypeReg {
			return false, fmt.Errorf("%w: it has %q", ErrNotBackup, h.Name)
		}
		delete(places, h.Name)
		sum := sha256.New()
		if err := write(place, io.TeeReader(r, sum)); errors.Is(err, io.ErrUnexpectedEOF) {
			return false, fmt.Errorf("%w: it is cut off: %w", ErrNotBackup, err)
		} else if err != nil {
			return false, err
		}
		if got := string(sum.Sum(nil)); sums != nil && got != sums[h.Name] {
			return false, fmt.Errorf("%w: its %s is not what it was when the backup was made; use another backup", ErrDamagedBackup, h.Name)
		}
	}
}

// checksums reads the checksums of an archive, which has those of all files with a place and
// of no others.
func checksums(from io.Reader, places map[string]string) (map[string]string, error) {
	text, err := io.ReadAll(io.LimitReader(from, mostChecksums))
	if err != nil {
		return nil, fmt.Errorf("%w: read its checksums: %w", ErrNotBackup, err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		digits, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		sum, err := hex.DecodeString(digits)
		if _, known := places[name]; err != nil || !ok || !known || len(sum) != sha256.Size {
			return nil, fmt.Errorf("%w: %s has the line %q", ErrDamagedBackup, Checksums, line)
		}
		sums[name] = string(sum)
	}
	if len(sums) != len(places) {
		return nil, fmt.Errorf("%w: %s has %d files, not %d", ErrDamagedBackup, Checksums, len(sums), len(places))
	}
	return sums, nil
}

func write(place string, from io.Reader) error {
	// What is there may be a link, or have another mode.
	if err := discard(place); err != nil {
		return err
	}
	f, err := newFile(place)
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
