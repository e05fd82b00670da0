package local

import (
	"os"
	"path/filepath"
	"testing"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
)

// TestARestoreWritesFilesOfItsOwn: whatever a cut-off restore, or somebody else, has left in the
// folder under the names that restore uses, restore neither follows a link nor keeps a mode.
func TestARestoreWritesFilesOfItsOwn(t *testing.T) {
	folder := t.TempDir()
	e, err := sqlite.Open(t.Context(), filepath.Join(folder, Database), sqlite.Options{Queues: map[queue.Name]queue.Config{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(folder, SealingKey)
	if err := os.WriteFile(key, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup.tar")
	if err := Backup(t.Context(), folder, key, file); err != nil {
		t.Fatal(err)
	}
	into, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	for _, name := range []string{other, filepath.Join(into, Database+restoring)} {
		if err := os.WriteFile(name, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other, filepath.Join(into, SealingKey+restoring)); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), file, into); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(other); err != nil || string(got) != "precious" {
		t.Errorf("a file outside of the folder is %q now, %v", got, err)
	}
	for _, name := range []string{SealingKey, Database} {
		if info, err := os.Lstat(filepath.Join(into, name)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
		}
	}
}

// TestARestoreShowsBothFilesOrNone.
func TestARestoreShowsBothFilesOrNone(t *testing.T) {
	for missing, left := range map[string]int{SealingKey: 1, Database: 0} {
		folder := t.TempDir()
		key, database := filepath.Join(folder, SealingKey), filepath.Join(folder, Database)
		for _, file := range []string{key, database} {
			if filepath.Base(file) == missing {
				continue
			}
			if err := os.WriteFile(file+restoring, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := show(key, database); err == nil {
			t.Errorf("without %s: no error", missing)
		}
		for _, name := range names(t, folder) {
			if filepath.Ext(name) != restoring {
				t.Errorf("without %s there is %s", missing, name)
			}
		}
		if all := names(t, folder); len(all) != left {
			t.Errorf("without %s there is %q", missing, all)
		}
	}
}
