package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"fedpost/internal/app/local"
	"fedpost/internal/engine/sqlite"
)

// alone runs a command that talks to no server.
func alone(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return logging(t, &bytes.Buffer{}, slog.DiscardHandler, args...)
}

// logging runs a command that talks to no server and prints to out.
func logging(t *testing.T, out *bytes.Buffer, log slog.Handler, args ...string) (string, error) {
	t.Helper()
	var c commands
	p, err := parser(&c, screen{w: out}, kong.Exit(func(int) { t.Errorf("%q ended the process", args) }))
	if err != nil {
		t.Fatal(err)
	}
	k, err := p.Parse(args)
	if err != nil {
		return "", err
	}
	k.BindTo(t.Context(), (*context.Context)(nil))
	err = k.Run(slog.New(log))
	return out.String(), err
}

// running starts fedpost on a data folder. The returned function stops it.
func running(t *testing.T, folder string) (terminal, func()) {
	t.Helper()
	f, err := start(t.Context(), folder, local.ListenConfig{Listen: "127.0.0.1:0"}, true, func(s *settings) { s.every = time.Second }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return terminal{t, f.server.URL}, func() {
		if err := f.stop(nil, 10*time.Second); err != nil {
			t.Error(err)
		}
	}
}

// TestAFedpostIsMovedByABackupOfItWhileItRuns: the restored one has the states of activities and
// sends them again, signed with the key that was made before; deliveries that waited still wait.
func TestAFedpostIsMovedByABackupOfItWhileItRuns(tt *testing.T) {
	tt.Parallel()
	signed := make(chan string, 2)
	var mended atomic.Bool
	inbox := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			tt.Error(err)
		}
		if !mended.Load() {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		signed <- r.Header.Get("Signature-Input") + r.Header.Get("Signature")
	}))
	defer inbox.Close()

	folder, file := tt.TempDir(), filepath.Join(tt.TempDir(), "fedpost.tar")
	t, stop := running(tt, folder)
	public := t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	t.run([]string{"servers", "pause", "a.example"})
	t.run([]string{"servers", "block", "bad.example", "--reason", "spam"})
	sent := t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", inbox.URL + "/inbox", "--to", "https://a.example/inbox"}, "queued")
	id, _, _ := strings.Cut(sent, " ")
	t.until("(1 failed, 1 parked)", "status", id)
	if out, err := alone(tt, "check", "--data", folder); err != nil || !strings.Contains(out, "schema") {
		t.Errorf("check while it runs: %v, %s", err, out)
	}
	if out, err := alone(tt, "backup", file, "--data", folder); err != nil || !strings.Contains(out, "is a backup of "+folder) {
		t.Fatalf("backup: %v, %s", err, out)
	}
	if out, err := alone(tt, "check", file); err != nil || !strings.Contains(out, "checksums  right") {
		t.Errorf("check of the backup: %v, %s", err, out)
	}
	if _, err := alone(tt, "restore", file, "--data", folder); err == nil || !strings.Contains(err.Error(), "stop the fedpost that runs on it") {
		t.Errorf("restored over a running one: %v", err)
	}
	stop()

	moved := filepath.Join(tt.TempDir(), "moved")
	if out, err := alone(tt, "restore", file, "--data", moved); err != nil || !strings.Contains(out, moved+" is restored") || !strings.Contains(out, "checksums  right") {
		t.Fatalf("restore: %v, %s", err, out)
	}
	var found sqlite.Found
	if out, err := alone(tt, "check", "--data", moved, "--json"); err != nil || json.Unmarshal([]byte(out), &found) != nil || found.Items == 0 {
		t.Errorf("check: %v, %s", err, out)
	}
	t, stop = running(tt, moved)
	defer stop()
	if got := t.run([]string{"keys", "show", keyID}); got != public {
		t.Errorf("the key is\n%s\nwas\n%s", got, public)
	}
	t.run([]string{"servers", "show", "bad.example"}, "blocked", "spam")
	t.until("(1 failed, 1 parked)", "status", id)
	t.run([]string{"servers", "show", "a.example"}, "waiting   1 delivery")
	mended.Store(true)
	t.run([]string{"retry", id}, "1 retried")
	t.until("(1 delivered, 1 parked)", "status", id)
	if s := <-signed; !strings.Contains(s, keyID) {
		t.Errorf("signed %q", s)
	}
}

// TestASealingKeyThatIsACredentialIsBackedUp, from wherever it is.
func TestASealingKeyThatIsACredentialIsBackedUp(tt *testing.T) {
	folder, credentials := tt.TempDir(), tt.TempDir()
	t, stop := running(tt, folder)
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	stop()
	key := filepath.Join(credentials, local.SealingKey)
	if err := os.Rename(filepath.Join(folder, local.SealingKey), key); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(tt.TempDir(), "b.tar")
	if _, err := alone(tt, "backup", file, "--data", folder); err == nil || !strings.Contains(err.Error(), "read the sealing key") {
		t.Errorf("without it: %v", err)
	}
	for i, args := range [][]string{{"--sealing-key", key}, nil} {
		if i == 1 {
			tt.Setenv("CREDENTIALS_DIRECTORY", credentials)
		}
		again := fmt.Sprint(file, i)
		if _, err := alone(tt, append([]string{"backup", again, "--data", folder}, args...)...); err != nil {
			t.Fatal(err)
		}
		if _, err := alone(tt, "restore", again, "--data", filepath.Join(tt.TempDir(), "new")); err != nil {
			t.Error(err)
		}
	}
}

func TestNothingStartsOnAFolderWhoseRestoreWasKilled(t *testing.T) {
	folder := t.TempDir()
	half := filepath.Join(folder, local.Database+".restoring")
	if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t.Context(), folder, local.ListenConfig{Listen: "127.0.0.1:0"}, true, nil, quiet); !errors.Is(err, local.ErrHalfRestored) {
		t.Errorf("the start says %v, want that the restore was cut off", err)
	}
}

// TestACheckOfADamagedFolderFails, and says what is wrong.
func TestACheckOfADamagedFolderFails(t *testing.T) {
	folder := t.TempDir()
	if _, err := alone(t, "check", "--data", folder); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Errorf("nothing there: %v", err)
	}
	if err := os.WriteFile(filepath.Join(folder, local.Database), []byte("noise"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := alone(t, "check", "--data", folder); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("noise: %v", err)
	}
}

// TestFoldersOfEarlierVersionsStart: each file of testdata is a backup that the version of
// its name has written. Keys and what operators have set never expire.
func TestFoldersOfEarlierVersionsStart(tt *testing.T) {
	files, err := filepath.Glob("testdata/folder-*.tar")
	if err != nil || len(files) == 0 {
		tt.Fatalf("%d folders, %v", len(files), err)
	}
	for _, file := range files {
		tt.Run(filepath.Base(file), func(tt *testing.T) {
			folder := tt.TempDir()
			if out, err := alone(tt, "restore", file, "--data", folder); err != nil {
				tt.Fatalf("restore: error %v, prints %s", err, out)
			}
			t, stop := running(tt, folder)
			defer stop()
			t.run([]string{"keys", "list"}, "rsa      https://social.example/users/otto#main-key", "ed25519  "+keyID)
			t.run([]string{"servers", "show", "bad.example"}, "blocked", "spam")
			t.run([]string{"servers", "show", "www.evil.example"}, "blocked by *.evil.example")
			t.run([]string{"servers", "show", "slow.example"}, "60/min, 5 at once")
			t.run([]string{"servers", "show", "a.example"}, "paused")
			t.run([]string{"webhooks", "list"}, "mine", "https://social.example/hook")
			inbox := httptest.NewServer(http.NotFoundHandler())
			defer inbox.Close()
			sent := t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", inbox.URL + "/inbox"}, "queued")
			id, _, _ := strings.Cut(sent, " ")
			t.until("done (1 failed)", "status", id)
			if out, err := alone(tt, "check", "--data", folder); err != nil {
				t.Errorf("check: error %v, prints %s", err, out)
			}
		})
	}
}
