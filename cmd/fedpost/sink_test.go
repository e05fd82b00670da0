package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lines runs a command line until stop is called, and returns what it prints, line by line.
func (t terminal) lines(args ...string) (lines *bufio.Scanner, stop func()) {
	t.Helper()
	read, write := io.Pipe()
	p, err := parser(&commands{}, screen{w: write})
	if err != nil {
		t.Fatal(err)
	}
	k, err := p.Parse(append(args, "--url", t.url, "--token", token))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	k.BindTo(ctx, (*context.Context)(nil))
	ended := make(chan error, 1)
	go func() {
		err := k.Run(slog.New(slog.DiscardHandler))
		ended <- err
		_ = write.CloseWithError(err) // it never fails
	}()
	return bufio.NewScanner(read), func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%q ends with %v", args, err)
		}
	}
}

// TestTheFirstActivityIsDeliveredToTheSink, which verifies it with the key that fedpost has.
func TestTheFirstActivityIsDeliveredToTheSink(tt *testing.T) {
	t := onServer(tt)
	out, stop := t.lines("sink", "--listen", "127.0.0.1:0")
	defer stop()
	next := func() string {
		if !out.Scan() {
			t.Fatal("the sink prints nothing more:", out.Err())
		}
		return out.Text()
	}
	inbox := regexp.MustCompile(`http://[\d.:]+/users/mo/inbox`).FindString(next())
	t.run([]string{"keys", "generate", keyID})
	id, _, _ := strings.Cut(t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", inbox}), " ")
	if line := next(); !strings.Contains(line, " 202 /users/mo/inbox Create ") || !strings.HasSuffix(line, "signed with "+keyID) {
		t.Errorf("the sink prints %q", line)
	}
	t.run([]string{"status", "--wait", id}, "delivered")

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, inbox, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(r)
		if err == nil {
			err = res.Body.Close()
		}
		answered <- err
	}()
	if line := next(); !strings.HasSuffix(line, " 401 /users/mo/inbox there is no signature") {
		t.Errorf("the sink prints %q", line)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// TestTheDemoStaysWithItsPage until it is interrupted, and then ends well, also in a shell
// with the token of a real fedpost.
func TestTheDemoStaysWithItsPage(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "fedpost")
	itself(t, program)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for one that prints nothing
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "demo", "--keep")
	var failed strings.Builder
	cmd.Stderr, cmd.Env = &failed, append(os.Environ(), "FEDPOST_API_TOKEN="+token)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	page := ""
	for lines := bufio.NewScanner(out); page == "" && lines.Scan(); {
		if _, link, ok := strings.Cut(lines.Text(), "The operator's page: "); ok {
			page = link
		}
	}
	res, err := http.Get(page)
	if err != nil {
		t.Fatalf("the page %q: %v: %s", page, err, failed.String())
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(text), "hang") && !strings.Contains(string(text), "127.0.0.1") {
		t.Errorf("the page shows no sample server: %v, %s", err, text)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the demo ends with %v", err)
	}
}
