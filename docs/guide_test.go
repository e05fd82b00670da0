package docs

import (
	"strings"
	"testing"
)

// TestTheGuideShowsWhatRuns: all code of guide.md is that of the programs in docs/guide,
// which TestTheGuideRuns and TestTheOutboxGuideRunsOnPostgreSQL of cmd/fedpost run, and each
// step is shown in each language.
func TestTheGuideShowsWhatRuns(t *testing.T) {
	programs := map[string]string{
		"go": read(t, "guide/main.go") + read(t, "guide/outbox/main.go"), "ts": read(t, "guide/guide.ts") + read(t, "guide/outbox.ts"),
		"python": read(t, "guide/guide.py") + read(t, "guide/outbox.py"),
	}
	_, steps, _ := strings.Cut(read(t, "guide.md"), "\n## ")
	for step := range strings.SplitSeq(steps, "\n## ") {
		title, text, _ := strings.Cut(step, "\n")
		shown := map[string]int{}
		for i, fenced := range strings.Split(text, "```") {
			if i%2 == 0 {
				continue
			}
			language, code, _ := strings.Cut(fenced, "\n")
			program, known := programs[language]
			shown[language]++
			switch {
			case language == "sh":
			case !known:
				t.Errorf("%s: a block of %q", title, language)
			case strings.TrimSpace(code) == "" || !strings.Contains(program, code):
				t.Errorf("%s: this %s is not in docs/guide:\n%s", title, language, code)
			}
		}
		if strings.Contains("0123456", title[:1]) && (shown["go"] != 1 || shown["ts"] != 1 || shown["python"] != 1) {
			t.Errorf("%s: is shown %v", title, shown)
		}
	}
}
