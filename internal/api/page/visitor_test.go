package page_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
)

// visitor is a browser without script.
type visitor struct {
	*site
	http *http.Client
	form string // the token of the forms last seen
}

func (s *site) visitor() *visitor {
	s.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.Fatal(err)
	}
	return &visitor{site: s, http: &http.Client{Jar: jar}}
}

// shown is a page as a visitor gets it.
type shown struct {
	*http.Response
	text string
}

var tags = regexp.MustCompile(`<[^>]*>\s*`)

var formToken = regexp.MustCompile(`name="form" value="([^"]+)"`)

func (v *visitor) ask(r *http.Request) shown {
	v.Helper()
	resp, err := v.http.Do(r)
	if err != nil {
		v.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		v.Fatal(err)
	}
	if m := formToken.FindSubmatch(b); m != nil {
		v.form = string(m[1])
	}
	return shown{resp, string(b)}
}

func (v *visitor) get(path string) shown {
	v.Helper()
	r, err := http.NewRequestWithContext(v.Context(), http.MethodGet, v.url+path, nil)
	if err != nil {
		v.Fatal(err)
	}
	return v.ask(r)
}

// post sends a form as a browser does, with the token of the form.
func (v *visitor) post(path string, fields ...string) shown {
	v.Helper()
	values := url.Values{"form": {v.form}}
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	return v.ask(v.posting(path, values))
}

func (v *visitor) posting(path string, values url.Values) *http.Request {
	v.Helper()
	r, err := http.NewRequestWithContext(v.Context(), http.MethodPost, v.url+path, strings.NewReader(values.Encode()))
	if err != nil {
		v.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", v.url)
	return r
}

// crowd signs in n visitors, who look at no page: showing one takes far longer than a sign-in.
// secret is what each signs in with. It returns the last visitor.
func (s *site) crowd(n int, secret func(i int) string) (last *visitor) {
	s.Helper()
	for i := range n {
		last = s.visitor()
		follow := last.http.CheckRedirect
		last.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		if p := last.post("/sign-in", "secret", secret(i)); p.StatusCode != http.StatusSeeOther || p.Header.Get("Location") != "/" {
			s.Fatalf("signed in: %d, to %q", p.StatusCode, p.Header.Get("Location"))
		}
		last.http.CheckRedirect = follow
	}
	return last
}

// signedIn is a visitor with the right token.
func (s *site) signedIn() *visitor {
	s.Helper()
	v := s.visitor()
	if p := v.post("/sign-in", "secret", token); p.StatusCode != http.StatusOK || p.Request.URL.Path != "/" {
		s.Fatalf("signed in: %d at %s", p.StatusCode, p.Request.URL)
	}
	return v
}

// says checks what a page shows.
func (v *visitor) says(p shown, status int, words ...string) {
	v.Helper()
	if p.StatusCode != status {
		v.Errorf("%s: status %d, want %d", p.Request.URL, p.StatusCode, status)
	}
	for _, w := range words {
		if !strings.Contains(p.text, w) {
			v.Errorf("%s does not say %q, but %.500q", p.Request.URL, w, tags.ReplaceAllString(p.text[strings.Index(p.text, "<main"):], " "))
		}
	}
}

func with(r *http.Request, name, value string) *http.Request {
	r.Header.Set(name, value)
	return r
}

// TestNothingFromElsewhereIsAllowed: the policy has no unsafe word, and the pages need
// none: no inline style, script or handler.
