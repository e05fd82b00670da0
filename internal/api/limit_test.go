package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"fedpost/internal/api"
)

// limited is an API with a limit of three requests a minute, and three tokens.
func limited(t *testing.T, also ...func(*api.Options)) *world {
	return newWorld(t, func(o *api.Options) {
		o.Tokens = api.Tokens{Send: "the token of a server", Read: "the token of Prometheus", Operate: "the token of an operator"}
		o.RequestsPerMinute = 3
		for _, f := range also {
			f(o)
		}
	})
}

func TestATokenMayMakeSoManyRequestsAMinute(t *testing.T) {
	counted := 0
	w := limited(t, func(o *api.Options) {
		o.Counted = func(what string, n int) {
			if what == api.Limited {
				counted += n
			}
		}
	})
	ask := func(token string) response {
		return w.do("GET", "/v1/activities/x", "", "Authorization", "Bearer "+token)
	}
	check := func(res response, status int, rateLimit, RetryAfter string) {
		t.Helper()
		h := res.Header
		if res.Status != status || h.Get("RateLimit") != rateLimit || h.Get("RateLimit-Policy") != `"send";q=3;w=60` || h.Get("Retry-After") != RetryAfter {
			t.Errorf("answered %d %v, want %d with %s and Retry-After %q", res.Status, h, status, rateLimit, RetryAfter)
		}
	}
	for _, left := range []string{`"send";r=2;t=20`, `"send";r=1;t=40`, `"send";r=0;t=60`} {
		check(ask("the token of a server"), http.StatusNotFound, left, "")
	}
	over := ask("the token of a server")
	check(over, http.StatusTooManyRequests, `"send";r=0;t=60`, "20")
	refused(t, over, http.StatusTooManyRequests, "limited to 3 a minute")
	// A request that is refused for another reason counts, too.
	w.clock = w.clock.Add(20 * time.Second)
	if res := w.do("GET", "/v1/keys/x", "", "Authorization", "Bearer the token of a server"); res.Status != http.StatusForbidden {
		t.Errorf("after 20 s: %d", res.Status)
	}
	w.clock = w.clock.Add(19 * time.Second)
	check(ask("the token of a server"), http.StatusTooManyRequests, `"send";r=0;t=41`, "1")
	w.clock = w.clock.Add(time.Hour)
	check(ask("the token of a server"), http.StatusNotFound, `"send";r=2;t=20`, "")
	if counted != 2 {
		t.Errorf("%d requests over the limit were counted, want 2", counted)
	}
	// The others have limits of their own.
	for _, token := range []string{"the token of Prometheus", "the token of an operator"} {
		if res := ask(token); res.Status != http.StatusNotFound {
			t.Errorf("%s: %d", token, res.Status)
		}
	}
}

// TestStrangersShareOneLimit: however many tokens they make up, and whatever they do, those
// who hold a token are served, and so are public routes.
func TestStrangersShareOneLimit(t *testing.T) {
	w := limited(t)
	statuses := map[int]int{}
	for i := range 1000 {
		res := w.do("GET", "/v1/activities/x", "", "Authorization", fmt.Sprintf("Bearer guess %d", i))
		statuses[res.Status]++
	}
	if statuses[http.StatusUnauthorized] != 3 || statuses[http.StatusTooManyRequests] != 997 {
		t.Errorf("strangers are answered %v", statuses)
	}
	if res := w.do("GET", "/v1/activities/x", "", "Authorization", "Bearer the token of a server"); res.Status != http.StatusNotFound {
		t.Errorf("a server is answered %d", res.Status)
	}
	for range 5 {
		if res := w.do("GET", "/healthz", ""); res.Status != http.StatusOK || res.Header.Get("RateLimit") != "" {
			t.Errorf("/healthz answers %d %v", res.Status, res.Header)
		}
	}
}

func TestWithoutTokensAllShareOneLimitAndWithoutALimitThereAreNoHeaders(t *testing.T) {
	w := newWorld(t, func(o *api.Options) { o.RequestsPerMinute = 1 })
	if res := w.do("GET", "/v1/activities/x", ""); res.Status != http.StatusNotFound || res.Header.Get("RateLimit") != `"anyone";r=0;t=60` {
		t.Errorf("first %d %v", res.Status, res.Header)
	}
	refused(t, w.do("POST", "/v1/activities", submission()), http.StatusTooManyRequests, "limited to 1 a minute")
	w = newWorld(t)
	for range 100 {
		if res := w.do("GET", "/v1/activities/x", ""); res.Status != http.StatusNotFound || res.Header.Get("RateLimit-Policy") != "" {
			t.Fatalf("without a limit: %d %v", res.Status, res.Header)
		}
	}
}

// TestAPageOfAnotherSiteUsesUpNoLimit: any page can make a browser send reads to 127.0.0.1, which
// nobody but the browser could refuse to send.
func TestAPageOfAnotherSiteUsesUpNoLimit(t *testing.T) {
	w := newWorld(t, func(o *api.Options) { o.RequestsPerMinute = 3 })
	for _, site := range []string{"cross-site", "same-site", "nonsense"} {
		for range 5 {
			refused(t, w.do("GET", "/v1/activities/x", "", "Sec-Fetch-Site", site), http.StatusForbidden, "A page of another site")
		}
	}
	if res := w.do("GET", "/healthz", "", "Sec-Fetch-Site", "cross-site"); res.Status != http.StatusOK {
		t.Errorf("a public route answered %d", res.Status)
	}
	for _, site := range []string{"same-origin", "none", ""} {
		if res := w.do("GET", "/v1/activities/x", "", "Sec-Fetch-Site", site); res.Status != http.StatusNotFound {
			t.Errorf("a request from %q is answered %d", site, res.Status)
		}
	}
}
