package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
)

// TestNoTextOfAStrangerReachesTheTerminalUncut: an answer of a remote server is
// shown in tables, in JSON and in errors.
func TestNoTextOfAStrangerReachesTheTerminalUncut(t *testing.T) {
	evil := "a\x1b]0;title\a\x1b[2Jb\u009b31mc\u202Ed\u2066e\rf\u2028g\U000E0041h\u200bi é 🐘"
	var b bytes.Buffer
	out := screen{w: &b}
	if _, err := fmt.Fprintf(out, "%s\n\tend", evil); err != nil {
		t.Fatal(err)
	}
	if want := "a ]0;title  [2Jb 31mc d e f g h i é 🐘\n\tend"; b.String() != want {
		t.Errorf("shown as %q, want %q", b.String(), want)
	}
	b.Reset()
	if err := printJSON(out, map[string]string{"lastError": evil}); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.String() {
		if obeyed(r) {
			t.Errorf("JSON holds %U: %q", r, b.String())
		}
	}
	var back map[string]string
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back["lastError"] != evil {
		t.Errorf("JSON says %q, %v", back, err)
	}
}
