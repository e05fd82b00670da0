//go:build unix

package local

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"fedpost/internal/engine/sqlite"
)

// TestARestoreAndAStartExcludeEachOther: fedpost starts on no folder that is being restored,
// and starts once the restore has ended.
func TestARestoreAndAStartExcludeEachOther(t *testing.T) {
	whole, err := os.ReadFile(backup(t))
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "backup.pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "data")
	restored := make(chan error, 1)
	go func() {
		_, err := Restore(t.Context(), pipe, folder)
		restored <- err
	}()
	// The restore waits for the rest of the backup: it has opened the pipe, so this open ends.
	to, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The writer gets beyond what a pipe holds when the restore reads, so it has its lock.
	if _, err := to.Write(whole[:len(whole)-4096]); err != nil {
		t.Fatal(err)
	}
	if e, err := sqlite.Open(t.Context(), filepath.Join(folder, Database), sqlite.Options{}); !errors.Is(err, sqlite.ErrInUse) {
		t.Errorf("fedpost started on a folder that is being restored: %v, %v", e, err)
	}
	if err := CheckRestored(folder); !errors.Is(err, sqlite.ErrInUse) {
		t.Errorf("during a restore: %v, want that the folder is in use", err)
	}
	if _, err := to.Write(whole[len(whole)-4096:]); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-restored; err != nil {
		t.Fatalf("restore: %v", err)
	}
	e, err := sqlite.Open(t.Context(), filepath.Join(folder, Database), sqlite.Options{})
	if err != nil {
		t.Fatalf("start after the restore: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
