package local

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
)

// socket is a path short enough for a Unix socket.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "s")
}

// overSocket is a client whose requests all go over a socket.
func overSocket(t *testing.T, path string) *http.Client {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// teapot starts a server whose API answers 418.
func teapot(t *testing.T, at ListenConfig, token string) (*Server, error) {
	t.Helper()
	e, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return Start(Options{
		Listen: at, Token: token, Queue: e.Queue, Timeout: time.Minute, Every: time.Hour, Log: slog.New(slog.DiscardHandler),
		Services: Services{
			API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
			Deliver: func(context.Context, queue.Name, []queue.Received) ([]string, error) {
				return nil, nil
			},
			HealthCheck: func(context.Context) error { return nil },
		},
	})
}

// TestASocketIsForItsOwnerAndGroup, without a token. Like a loopback address it answers names of
// this machine only, so what a careless reverse proxy passes on is refused.
func TestASocketIsForItsOwnerAndGroup(t *testing.T) {
	path := socket(t)
	s, err := teapot(t, ListenConfig{Listen: "unix:" + path}, "")
	if err != nil {
		t.Fatal(err)
	}
	if s.URL != "unix:"+path {
		t.Errorf("URL %q", s.URL)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("mode %v, %v; want 0660", info.Mode(), err)
	}
	c := overSocket(t, path)
	for url, want := range map[string]int{"http://localhost/": http.StatusTeapot, "http://social.example/": http.StatusMisdirectedRequest} {
		resp, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != want {
			t.Errorf("%s is answered %d, %v; want %d", url, resp.StatusCode, err, want)
		}
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the stop the socket is there: %v", err)
	}
}

// TestASocketThatAKilledProcessLeftIsReplaced.
func TestASocketThatAKilledProcessLeftIsReplaced(t *testing.T) {
	path := socket(t)
	killed, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	killed.SetUnlinkOnClose(false)
	if err := killed.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := teapot(t, ListenConfig{Listen: "unix:" + path}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestASocketThatIsTakenStaysAsItIs: neither the socket of a running process nor a file of
// somebody is removed.
func TestASocketThatIsTakenStaysAsItIs(t *testing.T) {
	path := socket(t)
	s, err := teapot(t, ListenConfig{Listen: "unix:" + path}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := teapot(t, ListenConfig{Listen: "unix:" + path}, ""); !errors.Is(err, ErrSocketTaken) {
		t.Errorf("a second server: %v", err)
	}
	resp, err := overSocket(t, path).Get("http://localhost/")
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := teapot(t, ListenConfig{Listen: "unix:" + path}, ""); !errors.Is(err, ErrSocketTaken) {
		t.Errorf("on a file: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("the file is %q, %v", text, err)
	}
	if _, err := teapot(t, ListenConfig{Listen: "unix:" + filepath.Join(path, "below")}, ""); err == nil {
		t.Error("a socket below a file is listened on")
	}
}

// TestAnAddressWithoutAPortIsNamedAsSuch, not as one that needs a token.
func TestAnAddressWithoutAPortIsNamedAsSuch(t *testing.T) {
	for _, listen := range []string{"8080", "localhost", "::1", "", "[::1"} {
		for _, token := range []string{"", "secret"} {
			_, err := teapot(t, ListenConfig{Listen: listen}, token)
			if err == nil || errors.Is(err, ErrNotLoopback) || !strings.Contains(err.Error(), "give HOST:PORT, such as 127.0.0.1:8080, or unix:PATH") {
				t.Errorf("%q: %v", listen, err)
			}
		}
	}
}
