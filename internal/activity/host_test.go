package activity

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

// TestAHostHasOneName: spellings that reach the same host have one name.
func TestAHostHasOneName(t *testing.T) {
	for want, spellings := range map[string][]string{
		"xn--mnchen-3ya.example":       {"münchen.example", "MÜNCHEN.example.", "ｍünchen.example", "mün\u00adchen.example", "münchen。example", "mu\u0308nchen.example", "XN--MNCHEN-3YA.example"},
		"xn--fa-hia.example":           {"faß.example"},
		"xn--ls8h.example":             {"💩.example"},
		"social.example":               {"social.example", "Social.Example.", "ｓｏｃｉａｌ．ｅｘａｍｐｌｅ", "so\u200bcial.example", "social.example。"},
		"under_score.example":          {"under_score.example", "Under_Score.example"},
		"r3---sn-a5m.example":          {"r3---sn-a5m.example"},
		"localhost":                    {"localhost", "LOCALHOST."},
		"127.0.0.1":                    {"127.0.0.1", "１２７.0.0.1", "127。0。0。1", "::ffff:127.0.0.1", "::FFFF:7f00:1", "127.0.0.1."},
		"[2001:db8::1]":                {"2001:db8::1", "2001:DB8:0:0:0:0:0:1", "2001:0db8::0001"},
		strings.Repeat("a", 63) + ".b": {strings.Repeat("A", 63) + ".b"},
	} {
		for _, s := range spellings {
			if got, err := HostName(s); err != nil || got != want {
				t.Errorf("HostName(%q) = %q, %v; want %q", s, got, err, want)
			}
		}
	}
}

func TestWhatCannotBeAHostIsRefusedWithTheReason(t *testing.T) {
	for s, why := range map[string]string{
		"": "no character", ".": "no character", "\u00ad": "no character", "\u200b.": "no character",
		"a..b": "empty label", "a..": "empty label", ".a": "empty label", "a.。b": "empty label",
		"-a.example": "hyphen", "a-.example": "hyphen",
		strings.Repeat("a", 64) + ".example":        "63 bytes",
		strings.Repeat("ü", 64) + ".example":        "63 bytes",
		strings.Repeat("abcdefgh.", 30) + "example": "253 bytes",
		"a b": "' '", "a/b": "'/'", "a@b": "'@'", "a%62": "'%'", "a\x00b": `'\x00'`, "a／b": "'/'", "℀.example": "'/'", "a＠b.example": "'@'",
		"a\xffb": "UTF-8", "a\ufffdb": "characters", "ab\u200fc": "characters",
		"127.1": "four decimal", "2130706433": "four decimal", "0x7f000001": "four decimal", "0X7F.1": "four decimal", "0177.0.0.1": "four decimal",
		"1.2.3.4.5": "four decimal", "256.0.0.1": "four decimal", "１２７.1": "four decimal",
		"::g": "IPv6", "1::2::3": "IPv6", "fe80::1%lo": "zone", "a:80": "IPv6",
	} {
		got, err := HostName(s)
		if !errors.Is(err, ErrHost) || !strings.Contains(err.Error(), why) || len(err.Error()) > 400 {
			t.Errorf("HostName(%q) = %q, %v; want an error that says %q", s, got, err, why)
		}
	}
}

func TestAuthorityLeavesOutTheDefaultPort(t *testing.T) {
	for raw, want := range map[string]string{
		"https://a.example:0443/": "a.example", "https://a.example:443/": "a.example", "https://a.example:/": "a.example", "http://a.example:080/": "a.example",
		"https://a.example:80/": "a.example:80", "https://a.example:08443/": "a.example:8443", "https://[::1]:0443/": "[::1]", "https://[::1]:8443": "[::1]:8443",
	} {
		if got := HostOf(raw); got != want {
			t.Errorf("HostOf(%q) = %q, want %q", raw, got, want)
		}
	}
	for _, raw := range []string{"https://a.example:0/", "https://a.example:65536/", "https://a.example:99999999999999999999/", "https://[v1.x]/"} {
		u, err := url.Parse(raw)
		if err != nil {
			continue // url.Parse is stricter still
		}
		if got, err := Authority(u); !errors.Is(err, ErrHost) {
			t.Errorf("Authority(%q) = %q, %v", raw, got, err)
		}
	}
}

func FuzzHostName(f *testing.F) {
	for _, s := range []string{"münchen.example", "ｍÜnchen。example.", "a\u00adb", "127.0.0.1", "::ffff:1.2.3.4", "xn--a", "xn--mnchen-3ya", "A_b.-c", "0x7f.1", "℀", "㏂.example", "a\u200db", "ß", "1.1.1.1."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := HostName(s)
		if err != nil {
			if !errors.Is(err, ErrHost) {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		bare := strings.Trim(name, "[]")
		if again, err := HostName(bare); err != nil || again != name {
			t.Errorf("%q is %q, which is %q, %v", s, name, again, err)
		}
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.:[]") != "" || strings.HasSuffix(name, ".") {
			t.Errorf("%q is %q", s, name)
		}
		// Case, a trailing dot and soft hyphens reach the same host.
		for _, other := range []string{strings.ToUpper(bare), bare + ".", "\u00ad" + bare} {
			if got, err := HostName(other); !strings.Contains(bare, ":") && !strings.HasPrefix(bare, "xn--") && (err != nil || got != name) && !strings.Contains(bare, ".xn--") {
				t.Errorf("%q is %q, and %q is %q, %v", s, name, other, got, err)
			}
		}
	})
}
