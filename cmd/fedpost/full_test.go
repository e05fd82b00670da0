//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fedpost/internal/app/local"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/long"
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

// TestAFullDiskIsSaidAndLeftBehind: on /healthz, on the page and in the metrics, and writing works
// again once there is room.
func TestAFullDiskIsSaidAndLeftBehind(tt *testing.T) {
	long.Only(tt, "/healthz repeats its last answer for five seconds, twice")
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
	t.healthz(http.StatusServiceUnavailable, says)
	if n, ok := t.scrape()["fedpost_writable{}"]; n != 0 || !ok {
		t.Errorf("fedpost_writable is %v, %t", n, ok)
	}
	operator := t.browser()
	operator.signIn(token)
	for _, page := range []string{"/", "/servers", "/dead", "/activities", "/keys", "/webhooks", "/events"} {
		operator.see(page, says)
	}
	t.fails(says, "servers", "pause", "a.example")
	if _, err := t.try("send", t.file("note.json", note), "--key", keyID, "--to", "https://a.example/inbox", "--delay", "2d"); err == nil {
		t.Error("an activity was accepted")
	}
	t.fails(says, "health")

	if err := os.Remove(rest); err != nil {
		t.Fatal(err)
	}
	t.healthz(http.StatusOK, "")
	if n := t.scrape()["fedpost_writable{}"]; n != 1 {
		t.Errorf("fedpost_writable is %v", n)
	}
	if strings.Contains(operator.see("/"), says) {
		t.Error("the page still says it")
	}
	t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", "https://a.example/inbox", "--delay", "2d"}, "queued")
}

// TestAFileSystemThatBecomesReadOnlyIsSaid: ext4 does so by itself after an error of its disk,
// and SQLite says "disk I/O error".
func TestAFileSystemThatBecomesReadOnlyIsSaid(tt *testing.T) {
	folder, fail := failing(tt)
	tt.Setenv("FEDPOST_API_TOKEN", token)
	f, err := start(tt.Context(), folder, local.ListenConfig{Listen: "127.0.0.1:0"}, true, func(s *settings) { s.every = time.Second }, quiet)
	if err != nil {
		tt.Fatal(err)
	}
	t := terminal{tt, f.server.URL}
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	fail()
	const says = "the data folder is read-only"
	t.healthz(http.StatusServiceUnavailable, says)
	operator := t.browser()
	operator.signIn(token)
	operator.see("/", says)
	operator.see("/servers", says)
	t.fails(says, "servers", "pause", "a.example")
	t.fails(says, "send", t.file("note.json", note), "--key", keyID, "--to", "https://a.example/inbox", "--delay", "2d")
	t.run([]string{"keys", "list"}, keyID)
	if err := f.stop(nil, 10*time.Second); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("the counts of today cannot be kept, which the end has to say: %v", err)
	}
}

// failing mounts an ext4 of 16 megabytes, which only root may, and returns what makes it
// read-only as an error of its disk does.
func failing(t *testing.T) (folder string, fail func()) {
	t.Helper()
	folder = t.TempDir()
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 16<<20); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"mount", "-o", "loop,errors=remount-ro", image, folder}} {
		if said, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("a file system of its own takes root, e2fsprogs and a loop device: %s: %v %s", args[0], err, said)
		}
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, 0); err != nil {
			t.Error(err)
		}
	})
	device, err := exec.Command("findmnt", "-n", "-o", "SOURCE", folder).Output()
	if err != nil {
		t.Fatal(err)
	}
	trigger := filepath.Join("/sys/fs/ext4", filepath.Base(strings.TrimSpace(string(device))), "trigger_fs_error")
	if _, err := os.Stat(trigger); err != nil {
		t.Skip("this kernel fails no file system on request:", err)
	}
	return folder, func() {
		t.Helper()
		if err := os.WriteFile(trigger, []byte("1"), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// healthz waits until GET /healthz has a status and a text: it repeats its last answer for seconds
// of real time, as disk and process are real.
func (t terminal) healthz(want int, says string) {
	t.Helper()
	e2e.Await(t, time.Minute, fmt.Sprintf("GET /healthz to answer %d %q", want, says), func() (bool, string) {
		status, body := t.get("/healthz", "")
		return status == want && strings.Contains(body, says), fmt.Sprint(status, " ", body)
	})
}
