package activity

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestAURLHasOneSpelling(t *testing.T) {
	for in, want := range map[string]string{
		"HTTPS://Social.EXAMPLE:0443/inbox": "https://social.example/inbox",
		"https://social.example":            "https://social.example/",
		"https://social.example?":           "https://social.example/",
		"https://social.example?a=b":        "https://social.example/?a=b",
		"https://a.example/inbox?#top":      "https://a.example/inbox",
		"https://a.example/a%2Fb/ü":         "https://a.example/a%2Fb/%C3%BC",
		"https://a.example/a%2fb/%c3%bc":    "https://a.example/a%2fb/%c3%bc",
		"https://a.example/~a!$&'()*+,;=:@": "https://a.example/~a!$&'()*+,;=:@",
		"https://a.example/[x]|^`{}\"<>\\":  "https://a.example/[x]%7C%5E%60%7B%7D%22%3C%3E%5C",
		"https://a.example/x y":             "https://a.example/x%20y",
		"https://a.example/i?q=ü&p=%2f|[]":  "https://a.example/i?q=%C3%BC&p=%2f|[]",
		"https://a.example//b//c":           "https://a.example//b//c",
		"https://a.example/a/./b/../c":      "https://a.example/a/c",
		"https://a.example/a/%2E%2e/b/%2e":  "https://a.example/b/",
		"https://a.example/../../x/..":      "https://a.example/",
		"https://a.example/a/..b/.c/...":    "https://a.example/a/..b/.c/...",
		"https://a.example/..?x=/../":       "https://a.example/?x=/../",
		"https://a.example/a/%2e%2e%2fb":    "https://a.example/a/%2e%2e%2fb",
	} {
		if got, err := CanonicalURL(in); err != nil || got != want {
			t.Errorf("CanonicalURL(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"https://Sipher.example:443/": "https://sipher.example", "https://sipher.example": "https://sipher.example",
		"https://sipher.example/a/": "https://sipher.example/a/", "https://sipher.example/./": "https://sipher.example",
	} {
		if got, err := CanonicalServer(in); err != nil || got != want {
			t.Errorf("CanonicalServer(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

// FuzzCanonicalURL: a canonical URL is its own canonical form, net/http sends it
// byte for byte, and its path has no dot segment.
func FuzzCanonicalURL(f *testing.F) {
	for _, s := range []string{"https://social.example/inbox?a=b", "https://bücher.example:443/a%2Fb/ü", "https://a.example/../x/./%2e%2E/", "http://[::1]:080//", "https://a.example/%C3%BC|?|", "https://a.example/a\\b", "https://a.example?/..#/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		c, err := CanonicalURL(in)
		if err != nil {
			return
		}
		if again, err := CanonicalURL(c); err != nil || again != c {
			t.Fatalf("%q is %q, which is %q, %v", in, c, again, err)
		}
		r, err := http.NewRequest(http.MethodPost, c, nil)
		if err != nil {
			t.Fatalf("%q is %q: %v", in, c, err)
		}
		if sent := r.URL.Scheme + "://" + r.Host + r.URL.RequestURI(); sent != c || r.URL.String() != c || HostOf(c) != r.Host {
			t.Errorf("%q is %q, sent as %q", in, c, sent)
		}
		u, err := url.Parse(in)
		if err != nil || HostOf(in) != r.Host || u.RawQuery == "" && strings.Contains(c, "?") {
			t.Errorf("%q (%v) is %q", in, err, c)
		}
		for segment := range strings.SplitSeq(r.URL.EscapedPath(), "/") {
			if s := strings.ReplaceAll(strings.ToLower(segment), "%2e", "."); s == "." || s == ".." {
				t.Errorf("%q is %q", in, c)
			}
		}
	})
}
