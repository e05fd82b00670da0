package main

import (
	"strings"
	"testing"
)

// TestColumnsAreThoseOfATerminal, not characters and not bytes.
func TestColumnsAreThoseOfATerminal(t *testing.T) {
	for text, want := range map[string]int{
		"":                          0,
		"a.example":                 9,
		"größer …▁█":                10,
		"例え.テスト":                    11,
		"ＦＵＬＬ":                      8,
		"ﾊﾝｶｸ":                      4,
		"한국":                        4,
		"\u1112\u1161\u11ab":        2, // the first of them, in letters
		"🦀 ok":                      5,
		"e\u0301le\u0300ve":         5,
		"Z\u0351\u036f\u0310\u20dd": 1,
		"क\u094dष":                  2,
	} {
		if got := columns(text); got != want {
			t.Errorf("%q takes %d columns, want %d", text, got, want)
		}
	}
}

// TestACutTextIsNoWiderThanAsked, and no character is cut in two.
func TestACutTextIsNoWiderThanAsked(t *testing.T) {
	for _, text := range []string{"例え.テスト", "a例b例c", "e\u0301le\u0300ve", "🦀🦀🦀", "plain"} {
		for most := -1; most < 14; most++ {
			got := cut(text, most)
			if columns(got) > max(0, most) || !strings.HasPrefix(text, strings.TrimSuffix(got, "…")) {
				t.Errorf("%q at %d: %q", text, most, got)
			}
			if columns(text) <= most && got != text || most > 0 && got == "" {
				t.Errorf("%q at %d: %q, too short", text, most, got)
			}
		}
	}
	if got := cut("a例b", 3); got != "a…" {
		t.Errorf("a wide character that would be cut in two: %q", got)
	}
}

// TestColumnsAreAlignedBehindWideAndCombiningCharacters: such as in reasons, which operators
// and servers word as they like.
func TestColumnsAreAlignedBehindWideAndCombiningCharacters(t *testing.T) {
	var out strings.Builder
	err := table(screen{w: &out, width: 80}, []string{"KEY", "TYPE"}, [][]string{{"https://例え.example/é", "rsa"}, {"e\u0301", "ed25519"}, {"a\u200bb", "rsa"}})
	want := "" +
		"KEY                     TYPE\n" +
		"https://例え.example/é  rsa\n" +
		"e\u0301                       ed25519\n" +
		"a b                     rsa\n"
	if err != nil || out.String() != want {
		t.Errorf("%v, printed\n%s\nwant\n%s", err, &out, want)
	}
	out.Reset()
	// 42 characters, but 82 columns: it does not fit beside another column.
	if err := table(screen{w: &out, width: 80}, []string{"ID", "ERROR", "AT"}, [][]string{{"1", strings.Repeat("例", 40), "noon"}}); err != nil {
		t.Fatal(err)
	}
	if want := "ID  AT\n1   noon\n  error  " + strings.Repeat("例", 40) + "\n"; out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
}

// TestALongTextEndsItsLinesBetweenWords, and no word is lost or cut.
func TestALongTextEndsItsLinesBetweenWords(t *testing.T) {
	const text = "fedpost: listen on 127.0.0.1:8080: 例え.テスト https://a.example/users/somebody/inbox is in use"
	for most := range 100 {
		got := wrapped(text, most, 2)
		if strings.Join(strings.Fields(got), " ") != text {
			t.Fatalf("at %d: %q", most, got)
		}
		for line := range strings.Lines(got) {
			if line = strings.TrimSuffix(line, "\n"); most > 0 && columns(line) > most && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("at %d a line is wider: %q", most, line)
			}
		}
	}
	if got, want := wrapped("one two\nthree four five", 10, 0), "one two\nthree four\nfive"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
