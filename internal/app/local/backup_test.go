package local

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"fedpost/internal/app/progress"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
)

// dataFolder is a data folder that is in use, with a message on a queue.
func dataFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	e, err := sqlite.Open(t.Context(), filepath.Join(folder, Database), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := e.Queue(queue.Normal).Send(t.Context(), queue.Message{Body: "waits"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, SealingKey), []byte("the sealing key"), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// backup is a backup of a data folder.
func backup(t *testing.T) string {
	t.Helper()
	file, folder := filepath.Join(t.TempDir(), "backup.tar"), dataFolder(t)
	if err := Backup(t.Context(), folder, filepath.Join(folder, SealingKey), file); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestABackupAndItsRestoreSayWhatTheyDo while somebody waits.
func TestABackupAndItsRestoreSayWhatTheyDo(t *testing.T) {
	var steps []string
	ctx := progress.With(t.Context(), func(what string, _ progress.Part) { steps = append(steps, what) })
	folder, file := dataFolder(t), filepath.Join(t.TempDir(), "backup.tar")
	if err := Backup(ctx, folder, filepath.Join(folder, SealingKey), file); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(ctx, file, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"copying the database", "computing its checksum", "writing the backup", "unpacking the backup", "checking the database"}; !slices.Equal(steps, want) {
		t.Errorf("the steps are %q, want %q", steps, want)
	}
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// visible are the names in a folder except that of its lock.
func visible(t *testing.T, folder string) []string {
	t.Helper()
	return slices.DeleteFunc(names(t, folder), func(name string) bool { return name == Database+sqlite.LockSuffix })
}

func TestABackupOfAFolderInUseIsRestored(t *testing.T) {
	file := backup(t)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup is %v, %v", info.Mode(), err)
	}
	if all := names(t, filepath.Dir(file)); len(all) != 1 {
		t.Errorf("beside the backup there is %q", all)
	}
	folder := filepath.Join(t.TempDir(), "new", "data")
	found, err := Restore(t.Context(), file, folder)
	if err != nil || found.Messages["normal"] != 1 {
		t.Fatalf("found in the backup is %+v, error %v; want 1 message on normal", found, err)
	}
	if all := visible(t, folder); !slices.Equal(all, []string{readers, Database, SealingKey}) {
		t.Errorf("the folder has %q", all)
	}
	begun := 0
	for i, fails := range []error{errors.New("disk is full"), nil, nil} {
		err := AfterRestore(folder, func() error {
			begun++
			return fails
		})
		if !errors.Is(err, fails) || begun != min(i+1, 2) {
			t.Errorf("start %d after the restore: %v, %d begun", i, err, begun)
		}
	}
	if all := visible(t, folder); len(all) != 2 {
		t.Errorf("after a start the folder has %q", all)
	}
	for _, name := range []string{Database, SealingKey} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v, %v", name, info.Mode(), err)
		}
	}
	if key, err := os.ReadFile(filepath.Join(folder, SealingKey)); err != nil || string(key) != "the sealing key" {
		t.Errorf("the key is %q, %v", key, err)
	}
	e, err := sqlite.Open(t.Context(), filepath.Join(folder, Database), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	got, err := e.Queue(queue.Normal).Receive(t.Context(), queue.ReceiveOptions{Max: 10})
	if err != nil || len(got) != 1 || got[0].Body != "waits" {
		t.Errorf("received %v, %v", got, err)
	}
}

// TestABackupReplacesNothing, and leaves nothing behind when it fails.
func TestABackupReplacesNothing(t *testing.T) {
	file := backup(t)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	folder := dataFolder(t)
	if err := Backup(t.Context(), folder, filepath.Join(folder, SealingKey), file); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another: %v", err)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the former backup has changed, %v", err)
	}
	without := dataFolder(t)
	if err := os.Remove(filepath.Join(without, SealingKey)); err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]string{"no sealing key": without, "no database": t.TempDir()} {
		into := t.TempDir()
		if err := Backup(t.Context(), folder, filepath.Join(folder, SealingKey), filepath.Join(into, "b")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
		if all := names(t, into); len(all) != 0 {
			t.Errorf("%s leaves %q", name, all)
		}
	}
}

// TestARestoreWritesOverNothing: not over a folder in use, not over files of others.
func TestARestoreWritesOverNothing(t *testing.T) {
	file := backup(t)
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	used := dataFolder(t)
	for folder, want := range map[string]error{used: sqlite.ErrInUse, other: ErrNotEmpty} {
		before := visible(t, folder)
		if _, err := Restore(t.Context(), file, folder); !errors.Is(err, want) {
			t.Errorf("restored into a folder with %q: the error is %v, want %v", before, err, want)
		}
		if after := visible(t, folder); !slices.Equal(after, before) {
			t.Errorf("a restore that was refused turned %q into %q", before, after)
		}
	}
}

// TestTheNextBackupRemovesWhatAKilledOneHasLeft, and nothing that is in use.
func TestTheNextBackupRemovesWhatAKilledOneHasLeft(t *testing.T) {
	folder, into := dataFolder(t), t.TempDir()
	killed, using := filepath.Join(into, unfinished+"killed"), ""
	if err := os.MkdirAll(killed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(killed, Database), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	using, remove, err := scratch(into)
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	for _, f := range []string{killed, using} {
		if err := os.Chtimes(f, long, long); err != nil {
			t.Fatal(err)
		}
	}
	if err := Backup(t.Context(), folder, filepath.Join(folder, SealingKey), filepath.Join(into, "b.tar")); err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, into), []string{filepath.Base(using), "b.tar"}; !slices.Equal(got, want) {
		t.Errorf("beside the backup there is %q, want %q", got, want)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
}

// TestARestoreOfHalfABackupLeavesTheFolderEmpty, wherever the backup is cut off.
func TestARestoreOfHalfABackupLeavesTheFolderEmpty(t *testing.T) {
	whole, err := os.ReadFile(backup(t))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	refused := func(name string, content []byte) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "half")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(t.Context(), file, folder); !errors.Is(err, ErrNotBackup) && !errors.Is(err, sqlite.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if all := visible(t, folder); len(all) != 0 {
			t.Errorf("%s leaves %q", name, all)
		}
	}
	for _, n := range []int{0, 1, 511, 512, 530, 1024, 1536, 1600, 4096, len(whole) / 2, len(whole) - 4096} {
		refused("cut off", whole[:n])
	}
	refused("text", bytes.Repeat([]byte("hello "), 1000))
	refused("a database of noise", packed(t, map[string]string{SealingKey: "key", Database: "noise"}))
	refused("without a key", packed(t, map[string]string{Database: "noise"}))
	refused("another name", packed(t, map[string]string{"../../evil": "evil"}))
	if _, err := Restore(t.Context(), filepath.Join(t.TempDir(), "none"), folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

// TestARestoreThatWasKilledIsRepeated over what it left.
func TestARestoreThatWasKilledIsRepeated(t *testing.T) {
	for about, names := range map[string][]string{
		"while it unpacked":       {Database + restoring, SealingKey + restoring},
		"between its two renames": {Database + restoring, SealingKey},
	} {
		folder := t.TempDir()
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(folder, name), bytes.Repeat([]byte("half"), 100_000), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := CheckRestored(folder); !errors.Is(err, ErrHalfRestored) {
			t.Errorf("killed %s, before a start: %v, want that the restore was cut off", about, err)
		}
		if found, err := Restore(t.Context(), backup(t), folder); err != nil || found.Err() != nil {
			t.Errorf("killed %s: found in the backup is %+v, error %v; want nothing wrong", about, found, err)
		}
		if err := CheckRestored(folder); err != nil {
			t.Errorf("killed %s, after the second restore: %v", about, err)
		}
	}
}

// packed is an archive of files.
func packed(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
