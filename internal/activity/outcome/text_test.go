package outcome

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestTextIsCutAndCleaned(t *testing.T) {
	for in, want := range map[string]string{
		"":                                "",
		"  not\tfound\r\n":                "not found",
		"a\x1b[2Jb":                       "a\ufffd[2Jb",
		"a\xffb":                          "a\ufffdb",
		"right \u202eleft\u2066":          "right \ufffdleft\ufffd",
		"no\ufffe character\uffff":        "no\ufffd character\ufffd",
		"\u2028line\u2029":                "line",
		"caf\u00e9 \U0001f331":            "caf\u00e9 \U0001f331",
		strings.Repeat("x", MaxText+1):    strings.Repeat("x", MaxText),
		strings.Repeat("\u00e9", MaxText): strings.Repeat("\u00e9", MaxText/2),
	} {
		if got := Text(in); got != want {
			t.Errorf("%.40q becomes %.40q (%d bytes), want %.40q", in, got, len(got), want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("  a\x1b[2J\r\n\tb\xff\u202e ü", 10)
	f.Add(strings.Repeat("é ", 3000), 1024)
	f.Fuzz(func(t *testing.T, in string, limit int) {
		out := Clean(in, limit)
		if len(out) > max(limit, 0) || !utf8.ValidString(out) || strings.TrimSpace(out) != out || strings.Contains(out, "  ") {
			t.Errorf("cleaned to %q, want clean UTF-8 of at most %d bytes", out, limit)
		}
		for _, r := range out {
			if unicode.IsControl(r) {
				t.Errorf("%q has %U", out, r)
			}
		}
		if Clean(out, limit) != out {
			t.Errorf("%q becomes %q", out, Clean(out, limit))
		}
	})
}
