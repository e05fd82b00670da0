package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// manual is the page as text, its escapes taken back.
func manual(t *testing.T) (source, text string) {
	t.Helper()
	var out strings.Builder
	p, err := parser(&commands{}, screen{w: &out})
	if err != nil {
		t.Fatal(err)
	}
	k, err := p.Parse([]string{"man"})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Run(); err != nil {
		t.Fatal(err)
	}
	source = out.String()
	return source, strings.NewReplacer("\\[u2026]", "…", "\\-", "-", "\\(dq", "\"", "\\(aq", "'", "\\&", "", "\\e", "\\").Replace(source)
}

// TestTheManualPageSaysWhatTheHelpSays: each command and flag, with the same words.
func TestTheManualPageSaysWhatTheHelpSays(tt *testing.T) {
	_, text := manual(tt)
	p, err := parser(&commands{}, screen{w: tt.Output()})
	if err != nil {
		tt.Fatal(err)
	}
	seen := 0
	has := func(what string) {
		if seen++; !strings.Contains(text, what) {
			tt.Errorf("the page lacks %q", what)
		}
	}
	err = kong.Visit(p.Model, func(v kong.Visitable, next kong.Next) error {
		switch v := v.(type) {
		case *kong.Node:
			if v.Hidden {
				return nil
			}
			if len(v.Children) == 0 {
				has(".SS \"" + v.Path() + "\"\n" + v.Help)
			}
		case *kong.Flag:
			if !v.Hidden {
				has(".B " + v.String() + "\n" + v.Help)
			}
			return nil // its value has the same words
		case *kong.Positional:
			has(".I " + v.Summary() + "\n" + v.Help)
		}
		return next(nil)
	})
	if err != nil {
		tt.Fatal(err)
	}
	if seen < 60 {
		tt.Errorf("only %d commands, flags and arguments were looked for", seen)
	}
	if strings.Contains(text, "__") || strings.Contains(text, " man\"") {
		tt.Error("a hidden command is described")
	}
}

// TestTheManualPageIsFormattedWithoutComplaint by groff, where there is one.
func TestTheManualPageIsFormattedWithoutComplaint(tt *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		tt.Skip("groff is not installed")
	}
	source, _ := manual(tt)
	c := exec.Command(groff, "-man", "-ww", "-Tutf8", "-P-cbou")
	c.Stdin = strings.NewReader(source)
	var complaints strings.Builder
	c.Stderr = &complaints
	page, err := c.Output()
	if err != nil || complaints.Len() > 0 {
		tt.Errorf("groff: %v, %s", err, complaints.String())
	}
	if !strings.Contains(string(page), "servers block") {
		tt.Errorf("formatted, the page is\n%.500s", page)
	}
}

func TestTextsAreNoRequestsOfRoff(t *testing.T) {
	for text, want := range map[string]string{".so /etc/passwd": "\\&.so /etc/passwd", "a\n.b": "a\n\\&.b", "'x": "\\(aqx", `C:\n "q" --to`: `C:\en \(dqq\(dq \-\-to`, "1 … 2": "1 \\[u2026] 2"} {
		if got := roff(text); got != want {
			t.Errorf("%q is written %q, want %q", text, got, want)
		}
	}
}
