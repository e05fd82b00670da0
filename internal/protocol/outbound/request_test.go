package outbound

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"fedpost/internal/activity/outcome"
)

func TestURLsAreWrittenAsTheyAreSent(t *testing.T) {
	for in, want := range map[string]string{
		"https://Social.EXAMPLE/inbox":          "https://social.example/inbox",
		"https://social.example":                "https://social.example/",
		"https://social.example./inbox":         "https://social.example/inbox",
		"https://social.example:443/inbox":      "https://social.example/inbox",
		"http://social.example:80/inbox":        "http://social.example/inbox",
		"https://social.example:80/inbox":       "https://social.example:80/inbox",
		"https://social.example:8443/inbox#top": "https://social.example:8443/inbox",
		"https://bücher.example/büch er":        "https://xn--bcher-kva.example/b%C3%BCch%20er",
		"https://BÜCHER.example/":               "https://xn--bcher-kva.example/",
		"https://under_score.example/":          "https://under_score.example/",
		"https://a.example/a%2Fb?x=%20&y":       "https://a.example/a%2Fb?x=%20&y",
		"https://[2606:4700::A]:443/":           "https://[2606:4700::a]/",
		"https://a.example/inbox?":              "https://a.example/inbox",
		"https://a.example/a%2Fb/ü":             "https://a.example/a%2Fb/%C3%BC",
		"https://a.example/x/../inbox?ü=%c3":    "https://a.example/inbox?%C3%BC=%c3",
		"https://Ａ.example:0443/":               "https://a.example/",
		"HTTPS://a.example/":                    "https://a.example/",
	} {
		r, err := NewRequest(t.Context(), http.MethodPost, in, "")
		if err != nil {
			t.Errorf("%s: %v", in, err)
		} else if r.URL.String() != want || r.Host != r.URL.Host {
			t.Errorf("%s: %s with host %s, want %s", in, r.URL, r.Host, want)
		}
	}
	for _, in := range []string{
		"", "/inbox", "a.example/inbox", "ftp://a.example/", "mailto:a@a.example", "https:a.example", "https://", "https:///inbox",
		"https://user@a.example/", "https://user:secret@a.example/", "https://a b.example/", "https://a.example:port/", "https://ex\u0000ample/", "https://a.example/\r\nX: y", "https://\u200b/",
	} {
		_, err := NewRequest(t.Context(), http.MethodPost, in, "")
		var bad *RequestError
		if !errors.As(err, &bad) || ReasonOf(err) != outcome.BadRequest {
			t.Errorf("%q: %v", in, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error tells the password: %v", in, err)
		}
	}
}

// never is a transport that no request may reach.
type never struct{ t *testing.T }

func (n never) RoundTrip(r *http.Request) (*http.Response, error) {
	n.t.Errorf("%s %q was sent", r.URL, r.Header)
	return nil, errors.New("sent")
}

func TestNothingIsInjected(t *testing.T) {
	c, err := New(Config{UserAgent: "fedpost/test", Transport: never{t}})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*http.Request){
		"plain http":            func(r *http.Request) { r.URL.Scheme = "http" },
		"another scheme":        func(r *http.Request) { r.URL.Scheme = "gopher" },
		"user information":      func(r *http.Request) { r.URL, _ = r.URL.Parse("https://a:b@social.example/") },
		"line in a header":      func(r *http.Request) { r.Header.Set("Accept", "a\r\nX: y") },
		"bare line feed":        func(r *http.Request) { r.Header.Set("Accept", "a\nX: y") },
		"NUL in a header":       func(r *http.Request) { r.Header.Set("Accept", "a\x00") },
		"line in a header name": func(r *http.Request) { r.Header["X\r\nY"] = []string{"a"} },
		"space in a query":      func(r *http.Request) { r.URL.RawQuery = "a HTTP/1.1" },
		"line in a query":       func(r *http.Request) { r.URL.RawQuery = "a\r\nX: y" },
		"umlaut in a query":     func(r *http.Request) { r.URL.RawQuery = "ä" },
		"line in the host":      func(r *http.Request) { r.Host = "a\r\nX: y" },
		"space in the host":     func(r *http.Request) { r.URL.Host = "a b" },
		"no host":               func(r *http.Request) { r.URL.Host = "" },
	} {
		r, err := NewRequest(t.Context(), http.MethodPost, "https://social.example/inbox", "x")
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		var bad *RequestError
		if _, err := c.Do(t.Context(), r); !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, agent := range []string{"", "a\r\nb", "a\nb"} {
		if _, err := New(Config{UserAgent: agent}); err == nil {
			t.Errorf("user agent %q is taken", agent)
		}
	}
}

func FuzzNewRequest(f *testing.F) {
	f.Add("https://social.example/inbox?a=b")
	f.Add("https://bücher.example:443/ü")
	f.Add("https://a:b@[::1]/\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		r, err := NewRequest(t.Context(), http.MethodPost, in, "x")
		if err != nil {
			var bad *RequestError
			if !errors.As(err, &bad) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		again, err := NewRequest(t.Context(), http.MethodPost, r.URL.String(), "x")
		if err != nil || again.URL.String() != r.URL.String() {
			t.Errorf("%q becomes %q and then %v (%v)", in, r.URL, again, err)
		}
		if r.URL.User != nil || r.URL.Host == "" || r.URL.Path == "" || r.URL.Fragment != "" {
			t.Errorf("%q becomes %q", in, r.URL)
		}
	})
}
