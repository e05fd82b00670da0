package keys_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpost/internal/keys"
)

// TestB19AVanishedSealingKeyIsNotReplaced: with a new one, no stored key opens.
func TestB19AVanishedSealingKeyIsNotReplaced(t *testing.T) {
	store, path := &shelf{keys: map[string]keys.Sealed{}}, filepath.Join(t.TempDir(), "sealing.key")
	open := func() (*keys.LocalSealer, error) { return keys.OpenLocalSealerOf(t.Context(), path, store) }
	first, err := open()
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := first.Seal(t.Context(), "https://a.example#key", []byte("private"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := again.Open(t.Context(), "https://a.example#key", sealed); err != nil || string(text) != "private" {
		t.Errorf("after a restart %q, %v", text, err)
	}

	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := open(); !errors.Is(err, keys.ErrSealingKeyGone) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "Restore") {
		t.Errorf("without the file: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("another sealing key was made")
	}
	if _, err := keys.OpenLocalSealer(path); err != nil { // another one
		t.Fatal(err)
	}
	if _, err := open(); !errors.Is(err, keys.ErrSealingKeyOther) || !strings.Contains(err.Error(), "Restore") {
		t.Errorf("with another file: %v", err)
	}
	if err := os.WriteFile(path, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(); err != nil {
		t.Errorf("with the restored file: %v", err)
	}
}
