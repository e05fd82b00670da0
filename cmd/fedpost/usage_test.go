package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// shell runs command lines as main does. It has one parser for all of them: making one takes
// as long as reading ten lines.
type shell struct {
	parser         *kong.Kong
	stdout, stderr bytes.Buffer
}

func newShell(t *testing.T) *shell {
	t.Helper()
	s := &shell{}
	var err error
	s.parser, err = parser(&commands{}, screen{w: &s.stdout}, kong.Writers(&s.stdout, &s.stderr), kong.Exit(func(code int) { panic(ended(code)) }))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a command line, and returns what it prints and its exit status.
func (s *shell) run(t *testing.T, args ...string) (out, errs string, status int) {
	t.Helper()
	s.stdout.Reset()
	s.stderr.Reset()
	defer func() {
		out, errs = s.stdout.String(), s.stderr.String()
		if code, ok := recover().(ended); ok {
			status = int(code)
		}
	}()
	k := parse(s.parser, args)
	k.BindTo(t.Context(), (*context.Context)(nil))
	status = run(k, slog.New(slog.DiscardHandler), &s.stderr)
	return "", "", status
}

// leaves are all commands that do something, with words for their arguments.
func leaves(at *kong.Node) (all []*kong.Node) {
	if at.Leaf() && at.Type == kong.CommandNode {
		return []*kong.Node{at}
	}
	for _, child := range at.Children {
		all = append(all, leaves(child)...)
	}
	return all
}

// wrong is a value that a flag or an argument does not take, or "" if it takes any text.
func wrong(v *kong.Value) string {
	switch {
	case v.Enum != "":
		return "nonsense"
	case v.Target.Type().String() == "string", v.IsBool(), v.Target.Kind().String() == "slice" && v.Target.Type().Elem().Kind().String() == "string":
		return ""
	}
	return "soon"
}

// TestEveryMistakeOfUsageEndsWith2: one line on standard error that names the help with the
// answer, nothing on the output, for each command, flag and argument that there is.
func TestEveryMistakeOfUsageEndsWith2(t *testing.T) {
	t.Chdir(t.TempDir())
	p, err := parser(&commands{}, screen{})
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]string
	add := func(words []string, more ...string) {
		lines = append(lines, append(words[:len(words):len(words)], more...))
	}
	commands := leaves(p.Model.Node)
	for _, c := range commands {
		if c.Name == "__complete" {
			continue // what is half typed is no mistake
		}
		words := strings.Fields(c.FullPath())[1:]
		complete := words
		for _, a := range c.Positional {
			if a.Required {
				add(complete) // one argument is missing
			}
			if w := wrong(a); w != "" {
				add(complete, w)
			}
			value := "1"
			if a.Enum != "" {
				value = a.EnumSlice()[0]
			}
			complete = append(complete[:len(complete):len(complete)], value)
		}
		add(complete, "one", "too", "many")
		add(complete, "--nonsense")
		for _, f := range c.Flags {
			if slices.Contains([]string{"help", "log-level", "token", "aws-region", "json", "data"}, f.Name) {
				continue // which many commands have, and which take any text
			}
			if !f.IsBool() {
				add(complete, "--"+f.Name)
			}
			if w := wrong(f.Value); w != "" {
				add(complete, "--"+f.Name+"="+w)
			}
			if f.Name == "limit" {
				add(complete, "--limit=0")
				add(complete, "--limit=-1")
			}
			if f.Name == "url" && c.Name != "bench" {
				if c.FullPath() == "fedpost send" {
					complete = append(complete, "--to=https://a.example/inbox")
				}
				add(complete, "--url=nonsense")
				add(complete, "--url=ftp://a.example")
			}
		}
	}
	// A verb that does not exist, at the top and below each group.
	add(nil, "nonsense")
	for _, c := range p.Model.Children {
		if len(c.Children) > 0 {
			add([]string{c.Name})
			add([]string{c.Name}, "nonsense")
		}
	}
	for _, more := range []string{
		"--log-level LOUD stats", "help nonsense", "dashboard --json", "dashboard --listen 0.0.0.0:8081", "dashboard --listen 8081",
		"watch --every 10ms", "watch --count -1", "watch --count=-1", "dead retry", "dead drop", "dead list --since yesterday", "activities list --since yesterday", "activities list --state nonsense",
		"servers limit a.example --burst=-1", "servers limit a.example -- -5", "servers pause a.example --for=-5m", "up --listen 8080",
		"up --tls-cert nothing.pem", "send --to https://a.example/inbox --delay=-1h", "bench --sick 2", "bench --ids-only", "bench --mix nonsense",
		"status --state nonsense 1",
	} {
		add(nil, strings.Fields(more)...)
	}
	if err := os.WriteFile("1", []byte("{}"), 0o600); err != nil { // what send reads
		t.Fatal(err)
	}
	if len(lines) < 200 {
		t.Errorf("only %d command lines are tried", len(lines))
	}
	sh := newShell(t)
	for _, args := range lines {
		out, errs, status := sh.run(t, args...)
		if status != usageExit || out != "" || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "fedpost: ") || !strings.HasSuffix(errs, " --help)\n") {
			t.Errorf("%q ends with %d, prints %q and %q", args, status, out, errs)
		}
	}
}

// TestEveryHelpFitsATerminal of 80 columns: that of the program, of each group and of each
// command, shown and hidden, with the line of usage.
func TestEveryHelpFitsATerminal(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	p, err := parser(&commands{}, screen{})
	if err != nil {
		t.Fatal(err)
	}
	sh, pages := newShell(t), 0
	var look func(*kong.Node)
	look = func(at *kong.Node) {
		args := append(strings.Fields(at.FullPath())[1:], "--help")
		out, errs, status := sh.run(t, args...)
		if usage, _, _ := strings.Cut(out, "\n"); status != 0 || errs != "" || !strings.HasPrefix(usage, "Usage: "+at.FullPath()) {
			t.Errorf("%q ends with %d, prints %q and %q", args, status, out, errs)
		}
		for line := range strings.Lines(out) {
			if n := columns(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%q prints %d columns: %s", args, n, line)
			}
		}
		pages++
		for _, child := range at.Children {
			look(child)
		}
	}
	look(p.Model.Node)
	if least := len(leaves(p.Model.Node)); pages <= least {
		t.Errorf("only %d pages of help, of %d commands", pages, least)
	}
}

// TestWhatIsNoMistakeOfUsageEndsWith1: the command line is right, but something else is wrong.
func TestWhatIsNoMistakeOfUsageEndsWith1(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("FEDPOST_URL", "http://127.0.0.1:1")
	sh := newShell(t)
	for _, args := range []string{"stats", "status 1", "check --data nowhere", "backup new.tar --data nowhere", "send nothing.json --to https://a.example/inbox"} {
		out, errs, status := sh.run(t, strings.Fields(args)...)
		if status != 1 || out != "" || errs == "" || strings.Contains(errs, "--help)") {
			t.Errorf("%q ends with %d, prints %q and %q", args, status, out, errs)
		}
	}
}

// TestAnErrorSaysWhatToDo, for the most common causes.
func TestAnErrorSaysWhatToDo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	closed := freeAddress(t)
	refuses := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) })
	plain, secure := httptest.NewServer(refuses), httptest.NewUnstartedServer(refuses)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshake that fails
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	sh := newShell(t)
	for _, c := range []struct {
		says string
		args []string
	}{
		{"; FEDPOST_API_TOKEN has the token to send\n", []string{"stats", "--url", plain.URL}},
		{"; begin the address with http://\n", []string{"stats", "--url", "https" + strings.TrimPrefix(plain.URL, "http")}},
		{"; SSL_CERT_FILE names a file with certificates to trust\n", []string{"stats", "--url", secure.URL}},
		{"; fedpost up starts one, and --url or FEDPOST_URL says where it is\n", []string{"stats", "--url", "http://" + closed}},
		{"something listens there already: stop it, or choose another address with --listen", []string{"up", "--listen", address, "--data", t.TempDir()}},
		{"something listens there already: stop it, or choose another address with --listen", []string{"dashboard", "--listen", address}},
		{`"tomorrow" is no time: write it like 2026-11-21T08:00:00Z`, []string{"servers", "pause", "a.example", "--until", "tomorrow"}},
	} {
		if out, errs, status := sh.run(t, c.args...); status == 0 || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%q: %d, prints %q, says %q", c.args, status, out, errs)
		}
	}
	if err := taken.Close(); err != nil {
		t.Error(err)
	}
}
