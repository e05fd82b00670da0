//go:build linux

package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// small mounts a file system of 24 megabytes, which only root may.
func small(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := syscall.Mount("none", folder, "tmpfs", 0, "size=24m"); err != nil {
		t.Skip("a file system of its own takes root:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, 0); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// TestAFullDiskIsSaidAndLeftBehind: on /healthz, on the page and in the metrics, and it ends
// by itself once there is room.
func TestAFullDiskIsSaidAndLeftBehind(tt *testing.T) {
	folder := small(tt)
	t, stop := running(tt, folder)
	defer stop()
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	if n, ok := t.scrape()["fedpost_writable{}"]; n != 1 {
		t.Errorf("fedpost_writable is %v, %t, at the begin", n, ok)
	}
	rest := filepath.Join(folder, "rest")
	f, err := os.Create(rest)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 64<<10))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	const says = "the disk is full. Make room"
	t.turns("GET /healthz", func() bool {
		status, body := t.get("/healthz", "")
		return status == http.StatusServiceUnavailable && strings.Contains(body, says)
	})
	if n, ok := t.scrape()["fedpost_writable{}"]; n != 0 || !ok {
		t.Errorf("fedpost_writable is %v, %t", n, ok)
	}
	operator := t.browser()
	operator.signIn(token)
	operator.see("/", says)
	if _, err := t.try("send", t.file("note.json", note), "--key", keyID, "--to", "https://a.example/inbox", "--delay", "2d"); err == nil {
		t.Error("an activity was accepted")
	}
	t.fails(says, "health")

	if err := os.Remove(rest); err != nil {
		t.Fatal(err)
	}
	t.turns("GET /healthz", func() bool {
		status, _ := t.get("/healthz", "")
		return status == http.StatusOK
	})
	if n := t.scrape()["fedpost_writable{}"]; n != 1 {
		t.Errorf("fedpost_writable is %v", n)
	}
	if strings.Contains(operator.see("/"), says) {
		t.Error("the page still says it")
	}
	t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", "https://a.example/inbox", "--delay", "2d"}, "queued")
}

// turns waits until something is so, for as long as the test may take. /healthz repeats its
// last answer for seconds of real time: the disk is real, and so is the process.
func (t terminal) turns(what string, so func() bool) {
	t.Helper()
	for !so() {
		select {
		case <-t.Context().Done():
			t.Fatalf("%s never turns", what)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
