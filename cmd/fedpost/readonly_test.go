//go:build linux

package main

import (
	"strings"
	"syscall"
	"testing"

	"fedpost/internal/app/local"
)

// TestAReadOnlyFolderIsNamedAtStart: SQLite says that it is "unable to open database file".
func TestAReadOnlyFolderIsNamedAtStart(t *testing.T) {
	operator(t)
	folder := small(t)
	_, stop := running(t, folder)
	stop()
	if err := syscall.Mount("none", folder, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t.Context(), folder, local.ListenConfig{Listen: "127.0.0.1:0"}, true, nil, quiet); err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("the start says %v, want a read-only file system", err)
	}
}
