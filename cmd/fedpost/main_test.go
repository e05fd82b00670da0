package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// ended is the panic in place of the end of the process.
type ended int

// parsed reads a command line until the process would end.
func parsed(t *testing.T, args ...string) (out, errs string, code ended) {
	t.Helper()
	var c commands
	var stdout, stderr bytes.Buffer
	p, err := parser(&c, screen{w: &stdout}, kong.Writers(&stdout, &stderr), kong.Exit(func(code int) { panic(ended(code)) }))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		out, errs = stdout.String(), stderr.String()
		code, _ = recover().(ended)
	}()
	parse(p, args)
	return "", "", -1
}

// TestAMistakeIsSaidInOneLineAndNotOnTheOutput: the message names the command whose help
// has the answer, and goes to standard error, not into a pipe.
func TestAMistakeIsSaidInOneLineAndNotOnTheOutput(t *testing.T) {
	for says, args := range map[string][]string{
		"missing flags: --to=TO or --to-file=FILE (see fedpost send --help)\n":                              {"send", "note.json"},
		"unexpected argument statu, did you mean one of \"status\", \"stats\"? (see fedpost --help)\n":      {"statu"},
		"\"pause\", ... (see fedpost servers --help)\n":                                                     {"servers"},
		`"2 days" is not a duration: write it like 90s, 1h30m, 7d or PT1H (see fedpost send --help)` + "\n": {"send", "--to", "https://a.example/inbox", "--delay", "2 days"},
		`"soon" is not a duration: write it like 90s, 1h30m, 7d or PT1H (see fedpost bench --help)` + "\n":  {"bench", "--within", "soon"},
		`--limit: "x" is not a whole number from 1 on (see fedpost keys list --help)` + "\n":                {"keys", "list", "--limit", "x"},
		" can't be used together (see fedpost servers pause --help)\n":                                      {"servers", "pause", "a.example", "--for", "1h", "--until", "2126-11-21T08:00:00Z"},
	} {
		out, errs, code := parsed(t, args...)
		if out != "" || code != usageExit || !strings.HasPrefix(errs, "fedpost: ") || !strings.HasSuffix(errs, says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q ends with %d, prints %q and\n%s\nwant %q", args, code, out, errs, says)
		}
	}
}

func TestAnErrorNamesTheProgramOnce(t *testing.T) {
	for text, want := range map[string]string{"no such file": "fedpost: no such file", "fedpost answered 404 Not Found": "fedpost answered 404 Not Found"} {
		if got := said(errors.New(text), "fedpost up"); got != want {
			t.Errorf("%q is said as %q", text, got)
		}
	}
}

// TestHelpIsACommandToo, as in other programs.
func TestHelpIsACommandToo(t *testing.T) {
	for says, args := range map[string][]string{"Commands:": {"help"}, "servers pause": {"help", "servers"}, "Usage: fedpost servers pause": {"help", "servers", "pause"}} {
		if out, errs, code := parsed(t, args...); code != 0 || errs != "" || !strings.Contains(out, says) {
			t.Errorf("%q ends with %d, prints\n%s\nand %q", args, code, out, errs)
		}
	}
}

func TestWithoutACommandThereIsHelp(t *testing.T) {
	out, errs, code := parsed(t)
	if code != 0 || errs != "" || !strings.Contains(out, "Commands:") || !strings.Contains(out, "retry <id>") {
		t.Errorf("ends with %d, prints\n%s\nand %q", code, out, errs)
	}
}

// TestDurationsAreReadAsSettingsAre, in each of the notations that
// docs/configuration.md names.
func TestDurationsAreReadAsSettingsAre(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "PT1H": time.Hour, "60": time.Minute, "0s": 0} {
		var d duration
		if err := d.UnmarshalText([]byte(text)); err != nil || time.Duration(d) != want {
			t.Errorf("%s is read as %s, %v; want %s", text, time.Duration(d), err, want)
		}
	}
}
