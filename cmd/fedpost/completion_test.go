package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fedpost/internal/testkit/long"
)

// asProgram makes the test binary run as fedpost itself, for shells to call.
const asProgram = "FEDPOST_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	// Tests with a fedpost of their own run side by side, and share the token.
	if err := os.Setenv("FEDPOST_API_TOKEN", token); err != nil {
		panic(err)
	}
	// They wait for deliveries and timers more than they compute.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// itself makes a program at path that runs this test binary as fedpost.
func itself(t *testing.T, path string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asProgram, self)
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestWordsAreCompletedFromTheCommandsThatThereAre: commands, flags and the few values that
// a flag may have; for all else the shell offers files.
func TestWordsAreCompletedFromTheCommandsThatThereAre(t *testing.T) {
	long.NotUnderRace(t)
	for _, c := range []struct{ line, want string }{
		{"ser", "servers"},
		{"st", "status stats"},
		{"servers p", "pause pin"},
		{"servers pause a.example --f", "--for"},
		{"keys generate --ty", "--type"},
		{"keys rotate --type ", "rsa ed25519"},
		{"keys rotate --type = e", "ed25519"},
		{"keys rotate --type rsa --f", ""},
		{"keys delete X --f", "--force"},
		{"retry X --state f", "failed"},
		{"events -f --ty", "--type"},
		{"completion ", "bash zsh fish"},
		{"send --to ", ""},
		{"send note.", ""},
		{"__comp", ""},
	} {
		p, err := parser(&commands{}, screen{w: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range wordsAfter(p.Model.Node, strings.Split(c.line, " ")) {
			got = append(got, w.text)
			if strings.ContainsAny(w.text+w.help, "\t\n") {
				t.Errorf("%q has a tab or a line break", w)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q goes on with %q, want %q", c.line, got, c.want)
		}
	}
}

// TestShellsComplete: each shell loads its script, and the script asks the program.
func TestShellsComplete(t *testing.T) {
	dir := t.TempDir()
	itself(t, filepath.Join(dir, "fedpost"))
	for shell, script := range map[string]string{
		"bash": `source <(fedpost completion bash); COMP_WORDS=(fedpost servers p); COMP_CWORD=2; _fedpost; echo "${COMPREPLY[@]}"`,
		"zsh": `compdef() { :; }; _files() { echo files; }; _describe() { print -- ${${(P)2}%%:*}; }
source <(fedpost completion zsh); words=(fedpost servers p); CURRENT=3; _fedpost`,
		"fish": `fedpost completion fish | source; complete -C 'fedpost servers p' | string split -f1 \t | string join ' '`,
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip("not on this machine:", shell)
			}
			cmd := exec.CommandContext(t.Context(), path, "-c", script)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != "pause pin" {
				t.Errorf("%v, printed %q", err, out)
			}
		})
	}
}
