package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheCommandLinesOfTheDocumentsParse: what README.md and docs/ show can be
// typed as it stands.
func TestTheCommandLinesOfTheDocumentsParse(t *testing.T) {
	docs, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^(?:bin/|\$ )?fedpost ([a-z][^\n|>]*)`)
	word := regexp.MustCompile(`"[^"]*"|\S+`)
	lines := 0
	for _, file := range append(docs, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(text, -1) {
			for _, m := range shown.FindAllStringSubmatch(string(block[1]), -1) {
				lines++
				line, _, _ := strings.Cut(m[1], " #")
				words := word.FindAllString(line, -1)
				for i, w := range words {
					words[i] = strings.Trim(w, `"`)
				}
				p, err := parser(&commands{}, screen{w: io.Discard})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := p.Parse(words); err != nil {
					t.Errorf("%s: fedpost %s: %v", filepath.Base(file), line, err)
				}
			}
		}
	}
	if lines < 6 {
		t.Errorf("only %d command lines found", lines)
	}
}
