package main

import (
	"bytes"
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
	p, err := parser(&c, &stdout, kong.Writers(&stdout, &stderr), kong.Exit(func(code int) { panic(ended(code)) }))
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

// TestAMistakeIsSaidShortlyAndNotOnTheOutput: the message stands alone, not below a page
// of flags, and goes to standard error, not into a pipe.
func TestAMistakeIsSaidShortlyAndNotOnTheOutput(t *testing.T) {
	for says, args := range map[string][]string{
		"missing flags: --to":            {"send", "note.json"},
		"did you mean one of \"status\"": {"statu"},
		`"2 days" is not a duration: write it like 90s, 1h30m, 7d or PT1H`: {"send", "--to", "https://a.example/inbox", "--delay", "2 days"},
	} {
		out, errs, code := parsed(t, args...)
		if out != "" || code == 0 || !strings.Contains(errs, says) || !strings.Contains(errs, "--help") || strings.Count(errs, "\n") > 6 {
			t.Errorf("%q ends with %d, prints %q and\n%s\nwant %q", args, code, out, errs, says)
		}
	}
}

func TestWithoutACommandThereIsHelp(t *testing.T) {
	out, errs, code := parsed(t)
	if code != 0 || errs != "" || !strings.Contains(out, "Commands:") || !strings.Contains(out, "cancel <id>") {
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
