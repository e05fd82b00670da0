package keys_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpost/internal/keys"
)

// TestAVanishedSealingKeyIsNotReplaced: with a new one, no stored key opens.
func TestAVanishedSealingKeyIsNotReplaced(t *testing.T) {
	store, path := &shelf{keys: map[string]keys.Sealed{}}, filepath.Join(t.TempDir(), "sealing.key")
	open := func() (*keys.LocalSealer, error) {
		return keys.OpenLocalSealerOf(t.Context(), keys.SealingKey{File: path}, store)
	}
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

// racing is a store in which another process writes between the first read and the first
// write of this one.
type racing struct {
	*shelf
	meanwhile func()
}

func (r *racing) Key(ctx context.Context, id string) (keys.Sealed, error) {
	k, err := r.shelf.Key(ctx, id)
	if r.meanwhile != nil {
		meanwhile := r.meanwhile
		r.meanwhile = nil
		meanwhile()
	}
	return k, err
}

// TestProcessesThatStartTogetherAgreeOnASealingKey: two processes that were started at once on
// an empty PostgreSQL database each found no proof, and the second ended with "key exists".
func TestProcessesThatStartTogetherAgreeOnASealingKey(t *testing.T) {
	for folders, c := range map[string]struct {
		other string
		want  error
	}{
		"one":     {"a", nil},
		"another": {"b", keys.ErrSealingKeyOther},
	} {
		dir, store := t.TempDir(), &shelf{keys: map[string]keys.Sealed{}}
		first := func() {
			if _, err := keys.OpenLocalSealerOf(t.Context(), keys.SealingKey{File: filepath.Join(dir, "a", "sealing.key")}, store); err != nil {
				t.Error(err)
			}
		}
		_, err := keys.OpenLocalSealerOf(t.Context(), keys.SealingKey{File: filepath.Join(dir, c.other, "sealing.key")}, &racing{store, first})
		if !errors.Is(err, c.want) {
			t.Errorf("with the key in %s folder: %v, want %v", folders, err, c.want)
		}
	}
}
