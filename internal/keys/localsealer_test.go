package keys_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"fedpost/internal/keys"
)

func TestTheSealingKeyIsMadeOnceAndForItsOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "sealing.key")
	first, err := keys.OpenLocalSealer(path)
	if err != nil {
		t.Fatal(err)
	}
	box, err := first.Seal(t.Context(), id, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := keys.OpenLocalSealer(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := second.Open(t.Context(), id, box); err != nil || string(got) != "secret" {
		t.Errorf("after a restart: %q, %v", got, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.OpenLocalSealer(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.OpenLocalSealer(path); err == nil {
		t.Error("a damaged sealing key was taken")
	}
}

func TestProcessesThatMakeTheSealingKeyAtOnceShareIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sealing.key")
	sealers := make([]*keys.LocalSealer, 8)
	var wg sync.WaitGroup
	for i := range sealers {
		wg.Go(func() {
			var err error
			if sealers[i], err = keys.OpenLocalSealer(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	box, err := sealers[0].Seal(t.Context(), id, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range sealers {
		if _, err := s.Open(t.Context(), id, box); err != nil {
			t.Errorf("sealer %d has another key: %v", i, err)
		}
	}
}

func TestDamagedSealsDoNotOpen(t *testing.T) {
	s, err := keys.OpenLocalSealer(filepath.Join(t.TempDir(), "sealing.key"))
	if err != nil {
		t.Fatal(err)
	}
	box, err := s.Seal(t.Context(), id, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range box {
		bad := append([]byte(nil), box...)
		bad[i] ^= 1
		if _, err := s.Open(t.Context(), id, bad); !errors.Is(err, keys.ErrCannotOpen) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
		if _, err := s.Open(t.Context(), id, box[:i]); !errors.Is(err, keys.ErrCannotOpen) {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
}

// TestOnlyACredentialOfSystemdMayBeReadByItsGroup: its group bits are the mask of an access
// list; those of any other file are a group.
func TestOnlyACredentialOfSystemdMayBeReadByItsGroup(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "sealing.key")
	if _, err := keys.OpenLocalSealer(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o440); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	if _, err := keys.OpenLocalSealer(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that a group can read: %v", err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", folder)
	if _, err := keys.OpenLocalSealer(path); err != nil {
		t.Errorf("a credential: %v", err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", filepath.Dir(folder))
	if _, err := keys.OpenLocalSealer(path); err == nil {
		t.Error("a file below the folder of credentials is none of them")
	}
}
