package main

import (
	"bufio"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/binary"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/fediverse"
)

// TestTheGuideRuns runs the programs of docs/guide against a whole fedpost: one follower's
// inbox verifies the signature, with the key that a server would publish, the other is gone.
// TypeScript and Python run where FEDPOST_GUIDE_SCRIPT and FEDPOST_GUIDE_PYTHON name the
// compiled program and an interpreter that finds the generated client, as in CI.
func TestTheGuideRuns(t *testing.T) {
	for name, command := range map[string]func(t *testing.T) []string{
		"go": func(t *testing.T) []string {
			program := filepath.Join(t.TempDir(), "guide")
			if err := binary.Build(program, "../../docs/guide", nil); err != nil {
				t.Fatal(err)
			}
			return []string{program}
		},
		"typescript": func(t *testing.T) []string {
			return []string{"node", given(t, "FEDPOST_GUIDE_SCRIPT")}
		},
		"python": func(t *testing.T) []string {
			python := given(t, "FEDPOST_GUIDE_PYTHON")
			program, err := filepath.Abs("../../docs/guide/guide.py")
			if err != nil {
				t.Fatal(err)
			}
			return []string{python, program}
		},
	} {
		t.Run(name, func(t *testing.T) { runGuide(t, command(t)) })
	}
}

// TestTheRecipesRun runs those of docs/guide/recipes whose language this machine has, Django's
// with the Python of FEDPOST_GUIDE_PYTHON.
func TestTheRecipesRun(t *testing.T) {
	for name, c := range map[string]struct {
		program func(t *testing.T) string
		file    string
		prints  []string
		sent    int
	}{
		"django":    {func(t *testing.T) string { return given(t, "FEDPOST_GUIDE_PYTHON") }, "outgoing.py", []string{"left 0"}, 2},
		"rails":     {func(*testing.T) string { return "ruby" }, "fedpost.rb", []string{"again true", "refused #/recipients/0/inbox", "unavailable"}, 1},
		"elixir":    {func(*testing.T) string { return "elixir" }, "fedpost.exs", []string{"again true", "refused #/recipients/0/inbox", "unavailable"}, 1},
		"wordpress": {func(*testing.T) string { return "php" }, "try.php", []string{"again true", "refused refused"}, 1},
	} {
		t.Run(name, func(tt *testing.T) {
			program := c.program(tt)
			if _, err := exec.LookPath(program); err != nil {
				tt.Skip("it takes", program)
			}
			t := onServer(tt)
			t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
			inbox := fediverse.NewInbox(map[string]crypto.PublicKey{keyID: t.published(tt)})
			follower := httptest.NewServer(inbox)
			defer follower.Close()
			cmd := exec.CommandContext(tt.Context(), program, filepath.Join("..", "..", "docs", "guide", "recipes", c.file), follower.URL+"/inbox")
			cmd.Env = append(os.Environ(), "FEDPOST_URL="+t.url, "FEDPOST_API_TOKEN="+token)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for _, says := range append(c.prints, "sent 01") {
				if !strings.Contains(string(out), says) {
					t.Errorf("prints %s, which lacks %q", out, says)
				}
			}
			e2e.Await(tt, 30*time.Second, "all deliveries", func() (bool, string) {
				n := len(inbox.Accepted())
				return n == c.sent, fmt.Sprint(n, " of ", c.sent)
			})
		})
	}
}

func given(t *testing.T, variable string) string {
	t.Helper()
	v := os.Getenv(variable)
	if v == "" {
		t.Skip(variable + " is not set")
	}
	return v
}

func runGuide(t *testing.T, command []string) {
	s := onServer(t)
	inbox := sync.OnceValue(func() *fediverse.Inbox {
		return fediverse.NewInbox(map[string]crypto.PublicKey{keyID: s.published(t)})
	})
	follower := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inbox().ServeHTTP(w, r) }))
	defer follower.Close()
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	defer gone.Close()
	command = append(command, follower.URL+"/inbox", gone.URL+"/inbox")
	dir := t.TempDir()

	first := s.guide(t, dir, command, "publish", "sent", "gone", "done")
	if first["publish"] != "-----BEGIN PUBLIC KEY-----" || first["gone"] != gone.URL+"/inbox" || first["done"] != "1 1" {
		t.Errorf("the guide prints %q", first)
	}
	if posts := inbox().Accepted(); len(posts) != 1 || posts[0].ActivityID != "https://social.example/notes/1/activity" {
		t.Errorf("the follower accepted %+v", posts)
	}
	// Run again, it finds its key and sends nothing twice.
	if again := s.guide(t, dir, command, "publish", "sent"); again["sent"] != first["sent"] {
		t.Errorf("first sent %s, then %s", first["sent"], again["sent"])
	}
	if n := len(inbox().Posts()); n != 1 {
		t.Errorf("%d posts", n)
	}
}

// guide runs a program, which never ends by itself, until it has printed a line of each kind.
func (t terminal) guide(tt *testing.T, dir string, command []string, kinds ...string) map[string]string {
	tt.Helper()
	ctx, stop := context.WithTimeout(tt.Context(), 5*time.Minute) // for one that prints nothing
	defer stop()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "FEDPOST_URL="+t.url, "FEDPOST_API_TOKEN="+token)
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.StdoutPipe()
	if err != nil {
		tt.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tt.Fatal(err)
	}
	printed := map[string]string{}
	for lines := bufio.NewScanner(out); len(printed) < len(kinds) && lines.Scan(); {
		kind, text, _ := strings.Cut(lines.Text(), " ")
		printed[kind] = text
	}
	stop()
	_ = cmd.Wait() // it was killed
	for _, kind := range kinds {
		if _, ok := printed[kind]; !ok {
			tt.Fatalf("%q prints %q and no line %q: %s", command, printed, kind, failed.String())
		}
	}
	return printed
}

// published is the public key as a server publishes it in its actor's document.
func (t terminal) published(tt *testing.T) crypto.PublicKey {
	req, err := http.NewRequestWithContext(tt.Context(), "GET", t.url+"/v1/keys/"+url.PathEscape(keyID), nil)
	if err != nil {
		tt.Error(err)
		return nil
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		tt.Error(err)
		return nil
	}
	defer res.Body.Close()
	var k client.Key
	if err := json.NewDecoder(res.Body).Decode(&k); err != nil {
		tt.Error(err)
		return nil
	}
	block, _ := pem.Decode([]byte(k.PublicKeyPEM))
	if block == nil {
		tt.Errorf("no PEM: %q", k.PublicKeyPEM)
		return nil
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		tt.Error(err)
	}
	return key
}
