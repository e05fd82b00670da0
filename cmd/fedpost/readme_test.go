package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/long"
)

// TestTheCommandLinesOfTheDocumentsParse: what README.md and docs/ show can be
// typed as it stands.
func TestTheCommandLinesOfTheDocumentsParse(t *testing.T) {
	long.NotUnderRace(t)
	docs, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^(?:bin/|\$ )?fedpost ([a-z][^\n|>]*)`)
	word := regexp.MustCompile(`"[^"]*"|\S+`)
	lines := 0
	l := commandLines.Get().(*commandLine)
	defer commandLines.Put(l)
	for _, file := range append(docs, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(text, -1) {
			for _, m := range shown.FindAllStringSubmatch(string(block[1]), -1) {
				lines++
				line, _, _ := strings.Cut(m[1], " #")
				line = strings.TrimSuffix(strings.TrimSpace(line), "&") // in the background
				words := word.FindAllString(line, -1)
				for i, w := range words {
					words[i] = strings.Trim(w, `"`)
				}
				if _, err := l.parse(words); err != nil {
					t.Errorf("%s: fedpost %s: %v", filepath.Base(file), line, err)
				}
			}
		}
	}
	if lines < 6 {
		t.Errorf("only %d command lines found", lines)
	}
}

// TestTheFirstCommandsOfTheReadmeDeliver: what a newcomer types ends in deliveries, not in errors:
// the trial with the command line, then the call of curl.
func TestTheFirstCommandsOfTheReadmeDeliver(t *testing.T) {
	t.Parallel()
	for _, needed := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skip("it takes", needed)
		}
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n((?:go build|curl).*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Fatalf("README.md has %d such blocks", len(blocks))
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	itself(t, filepath.Join(dir, "bin", "fedpost"))
	server, sink := freeAddress(t), freeAddress(t)
	script := strings.NewReplacer(
		"go build -o bin/fedpost ./cmd/fedpost\n", "trap 'kill $(jobs -p); wait' EXIT\n", "fedpost sink", "fedpost sink --listen "+sink,
		"127.0.0.1:8080", server, "127.0.0.1:8090", sink, "sleep 1\n", "until bin/fedpost stats && curl -s http://"+sink+"; do sleep 0.1; done >/dev/null 2>&1\n",
	).Replace(blocks[0][1] + blocks[1][1])
	script += "until bin/fedpost stats | grep -q '3 delivered'; do sleep 0.1; done\necho all delivered\n"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-eu", "-c", script)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), "FEDPOST_LISTEN="+server, "FEDPOST_URL=http://"+server, "FEDPOST_API_TOKEN=")
	out, err := cmd.CombinedOutput()
	for _, says := range []string{" 202 /users/mo/inbox Like https://social.example/a/9", " 202 /inbox Like https://social.example/a/10", "all delivered\n"} {
		if !strings.Contains(string(out), says) {
			t.Errorf("lacks %q", says)
		}
	}
	if err != nil || t.Failed() {
		t.Errorf("%v: %s", err, out)
	}
}

// freeAddress is an address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l := e2e.Listen(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}
