package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// service is `fedpost up` as systemd runs it.
type service struct {
	url   string
	told  <-chan string // what systemd is told
	stop  func()        // as systemd does
	ended <-chan error
}

// asService runs `fedpost up` as systemd does: with credentials, and a socket by which fedpost
// notifies systemd.
func asService(t *testing.T, credentials map[string]string, data string, args ...string) service {
	t.Helper()
	operator(t)
	// The path of a socket has 108 bytes at most; t.TempDir has the name of the test in it.
	dir, err := os.MkdirTemp("", "fp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	for name, text := range credentials {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o440); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	t.Setenv("FEDPOST_API_TOKEN", "")
	t.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "notify"))
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := manager.Close(); err != nil {
			t.Error(err)
		}
	})
	states := make(chan string, 8)
	go func() {
		b := make([]byte, 1024)
		for {
			n, err := manager.Read(b)
			if err != nil {
				close(states)
				return
			}
			states <- string(b[:n])
		}
	}()
	url := "unix:" + filepath.Join(dir, "s")
	var c commands
	p, err := parser(&c, screen{w: t.Output()}, kong.Exit(func(int) { t.Errorf("%q ended the process", args) }))
	if err != nil {
		t.Fatal(err)
	}
	k, err := p.Parse(append([]string{"up", "--listen", url, "--data", data}, args...))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	k.BindTo(ctx, (*context.Context)(nil))
	ended := make(chan error, 1)
	go func() { ended <- k.Run(quiet) }()
	return service{url, states, cancel, ended}
}

// TestUpIsAService: it notifies systemd when it serves and when it stops, takes its token and its
// sealing key from credentials, and serves on a socket.
func TestUpIsAService(tt *testing.T) {
	data := tt.TempDir()
	up := asService(tt, map[string]string{"FEDPOST_API_TOKEN": token + "\n", "sealing.key": strings.Repeat("k", 32)}, data)
	if got := <-up.told; got != "READY=1" {
		tt.Fatalf("systemd is told %q", got)
	}
	t := terminal{tt, up.url}
	t.run([]string{"health"}, "ok\n")
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	t.run([]string{"stats"})
	if _, err := os.Stat(filepath.Join(data, "sealing.key")); !os.IsNotExist(err) {
		t.Errorf("there is another sealing key in the data directory: %v", err)
	}
	up.stop()
	if err := <-up.ended; err != nil {
		t.Error(err)
	}
	if got := <-up.told; got != "STOPPING=1" {
		t.Errorf("systemd is told %q", got)
	}
	t.fails("no such file", "health")

	// With another key in the credential it does not start, as with another file.
	up = asService(tt, map[string]string{"FEDPOST_API_TOKEN": token, "sealing.key": strings.Repeat("x", 32)}, data)
	if err := <-up.ended; err == nil || !strings.Contains(err.Error(), "not the sealing key") {
		t.Errorf("with another sealing key: %v", err)
	}
}

func TestTheFilesOfTLSAreNamedTogether(t *testing.T) {
	_, errs, code := parsed(t, "up", "--tls-cert", "cert.pem")
	if code == 0 || !strings.Contains(errs, "--tls-key") {
		t.Errorf("ends with %d and prints %q", code, errs)
	}
}
