package local

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// members are the files of an archive in their order, and what is in them.
func members(t *testing.T, archive []byte) (names []string, content map[string][]byte) {
	t.Helper()
	content = map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, content
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if content[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAChangedByteOfABackupIsNoticed, or changes nothing of what is restored, such as one of
// the zeros between two files. One property, for bytes of all parts of the archive.
func TestAChangedByteOfABackupIsNoticed(t *testing.T) {
	whole, err := os.ReadFile(backup(t))
	if err != nil {
		t.Fatal(err)
	}
	_, content := members(t, whole)
	random := rand.New(rand.NewPCG(20261123, 1))
	offsets := []int{len(whole) - 1, len(whole) - 512, len(whole) - 513, len(whole) - 1024, len(whole) - 1025}
	for block := range 5 { // header, checksums, header, key, header
		for at := 0; at < 512; at += 1 + random.IntN(10) {
			if at > 200 && block%2 == 1 {
				break // the zeros behind a short file
			}
			offsets = append(offsets, block*512+at)
		}
	}
	for range 60 {
		offsets = append(offsets, random.IntN(len(whole)))
	}
	file, folder := filepath.Join(t.TempDir(), "backup.tar"), t.TempDir()
	noticed := 0
	for _, at := range offsets {
		changed := slices.Clone(whole)
		changed[at] ^= byte(1 + random.IntN(255))
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(t.Context(), file, folder); err != nil {
			if noticed++; !errors.Is(err, ErrNotBackup) && !errors.Is(err, ErrDamagedBackup) {
				t.Errorf("byte %d: %v", at, err)
			}
			if all := visible(t, folder); len(all) != 0 {
				t.Fatalf("byte %d: %q is left", at, all)
			}
			continue
		}
		for _, name := range []string{SealingKey, Database} {
			restored, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil || !bytes.Equal(restored, content[name]) {
				t.Errorf("byte %d changed from %#x to %#x, and with it %s (%v)", at, whole[at], changed[at], name, err)
			}
		}
		for _, name := range names(t, folder) {
			if err := os.Remove(filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if noticed < len(offsets)/2 {
		t.Errorf("of %d changed bytes %d are noticed", len(offsets), noticed)
	}
}

// TestABackupSaysWhetherItWasVerified: the backups of earlier versions have no checksums, and
// are restored.
func TestABackupSaysWhetherItWasVerified(t *testing.T) {
	file := backup(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	order, content := members(t, whole)
	if want := []string{Checksums, SealingKey, Database}; !slices.Equal(order, want) {
		t.Errorf("the backup has %q, not %q", order, want)
	}
	early := filepath.Join(t.TempDir(), "early.tar")
	delete(content, Checksums)
	texts := map[string]string{}
	for name, c := range content {
		texts[name] = string(c)
	}
	if err := os.WriteFile(early, packed(t, texts), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	for from, verified := range map[string]bool{file: true, early: false} {
		restored, err := Restore(t.Context(), from, filepath.Join(t.TempDir(), "data"))
		if err != nil || restored.Verified != verified || restored.Messages["normal"] != 1 {
			t.Errorf("restored: %+v, %v", restored, err)
		}
		checked, err := CheckBackup(t.Context(), from)
		if err != nil || checked.Verified != verified || !maps.Equal(checked.Messages, restored.Messages) {
			t.Errorf("checked: %+v, %v", checked, err)
		}
	}
	changed := filepath.Join(t.TempDir(), "changed.tar")
	copy(whole[len(whole)/2:], "four")
	if err := os.WriteFile(changed, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := CheckBackup(t.Context(), changed); !errors.Is(err, ErrDamagedBackup) || !strings.Contains(err.Error(), Database) {
		t.Errorf("four bytes of the database are others: %v", err)
	}
	if all := names(t, os.Getenv("TMPDIR")); len(all) != 0 {
		t.Errorf("a check leaves %q", all)
	}
}

// TestChecksumsOfOtherFilesAreRefused: too few, too many, and malformed ones.
func TestChecksumsOfOtherFilesAreRefused(t *testing.T) {
	digits := strings.Repeat("ab", 32)
	key, database := digits+"  "+SealingKey+"\n", digits+"  "+Database+"\n"
	for name, c := range map[string]struct {
		sums string
		want error
	}{
		"of none":     {"", ErrDamagedBackup},
		"of one":      {key, ErrDamagedBackup},
		"of a third":  {key + database + digits + "  third\n", ErrDamagedBackup},
		"short":       {key + digits[2:] + "  " + Database + "\n", ErrDamagedBackup},
		"no hex":      {key + "x" + database[1:], ErrDamagedBackup},
		"without end": {strings.Repeat(key+database, 1000), ErrDamagedBackup},
		"other":       {key + database, ErrDamagedBackup},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, m := range [][2]string{{Checksums, c.sums}, {SealingKey, "key"}, {Database, "data"}} {
			if err := w.WriteHeader(&tar.Header{Name: m[0], Mode: 0o600, Size: int64(len(m[1]))}); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(w, m[1]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		folder := t.TempDir()
		if verified, err := unpack(&b, map[string]string{SealingKey: filepath.Join(folder, "1"), Database: filepath.Join(folder, "2")}); verified || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v", name, verified, err)
		}
	}
}

// TestSha256sumChecksABackup: a backup can be checked without fedpost.
func TestSha256sumChecksABackup(t *testing.T) {
	if _, err := exec.LookPath("sha256sum"); err != nil {
		t.Skip("sha256sum is not installed")
	}
	file, folder := backup(t), t.TempDir()
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, content := members(t, whole)
	for name, c := range content {
		if err := os.WriteFile(filepath.Join(folder, name), c, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", Checksums)
	check.Dir = folder
	if out, err := check.CombinedOutput(); err != nil || !strings.Contains(string(out), Database+": OK") {
		t.Errorf("%v: %s", err, out)
	}
}
