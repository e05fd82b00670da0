package page_test

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/api/inside"
	"fedpost/internal/api/page"
	"fedpost/internal/api/problem"
)

func TestNobodyIsLetInWithoutTheToken(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.visitor()
	for _, path := range []string{"/", "/servers", "/servers/a.example", "/servers/a.example/block", "/dead", "/dead/retry?host=a.example", "/activities", "/activities/" + anActivity} {
		p := v.get(path)
		if p.Request.URL.Path != "/sign-in" || strings.Contains(p.text, "down.example") {
			t.Errorf("%s is answered by %s", path, p.Request.URL)
		}
	}
	v.says(v.post("/servers/a.example/block"), 200, "Sign in")
	v.says(v.post("/sign-in", "secret", "another token of these tests"), 403, "is wrong")
	v.says(v.post("/sign-in"), 403, "is wrong")
	if p := v.get("/sign-in?secret=" + url.QueryEscape(token)); p.Request.URL.Path != "/sign-in" || strings.Contains(p.text, "Sign out") {
		t.Error("a token in an address lets somebody in")
	}
	if did := s.api.did(); did != nil {
		t.Errorf("changed: %q", did)
	}
}

func TestACookieIsASessionAndNotTheToken(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.visitor()
	v.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	p := v.post("/sign-in", "secret", token)
	c := p.Cookies()
	if len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode || c[0].Secure || strings.Contains(c[0].Value, token) || len(c[0].Value) < 26 {
		t.Fatalf("cookies are %+v", c)
	}
	r := v.posting("/sign-in", url.Values{"secret": {token}})
	r.Header.Set("X-Forwarded-Proto", "https")
	other := s.visitor()
	other.http.CheckRedirect = v.http.CheckRedirect
	if c := other.ask(r).Cookies(); len(c) != 1 || !c[0].Secure {
		t.Errorf("behind TLS the cookies are %+v", c)
	}
	v.http.CheckRedirect = nil
	v.says(v.get("/"), 200, "Sign out")
	v.says(v.post("/sign-out"), 200, "Sign in")
	// The browser may have kept the cookie; the session is over.
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	v.http.Jar.SetCookies(at, c)
	v.says(v.get("/"), 200, "API token")
}

// TestATokenThatIsReplacedEndsItsSessions: the API decides at each request.
func TestATokenThatIsReplacedEndsItsSessions(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	s.api.set("/v1/stats", problem.New(http.StatusUnauthorized, "Send the API token."))
	v.says(v.get("/"), 200, "Sign in")
	s.api.set("/v1/stats", busy(t).answers["/v1/stats"])
	v.says(v.get("/"), 200, "Sign in")
}

func TestFormsOfOthersChangeNothing(t *testing.T) {
	for _, needed := range []bool{true, false} {
		s := serve(t, busy(t), needed)
		v := s.visitor()
		if needed {
			v = s.signedIn()
		}
		v.get("/servers/mastodon.down.example/block")
		own := v.form
		if own == "" {
			t.Fatal("the form has no token")
		}
		block := "/servers/mastodon.down.example/block"
		for name, r := range map[string]*http.Request{
			"another site":          with(v.posting(block, url.Values{"form": {own}}), "Origin", "https://evil.example"),
			"another site, fetched": with(v.posting(block, url.Values{"form": {own}}), "Sec-Fetch-Site", "cross-site"),
			"another port":          with(v.posting(block, url.Values{"form": {own}}), "Origin", "http://127.0.0.1:1"),
			"no token":              v.posting(block, url.Values{}),
			"another's token":       v.posting(block, url.Values{"form": {strings.Repeat("A", len(own))}}),
			"a token in the query":  v.posting(block+"?form="+own, url.Values{}),
		} {
			p := v.ask(r)
			if p.StatusCode != http.StatusForbidden {
				t.Errorf("%s (sign-in needed: %t): %d", name, needed, p.StatusCode)
			}
		}
		if did := s.api.did(); did != nil {
			t.Errorf("changed: %q", did)
		}
		v.form = own
		v.says(v.post(block), 200, "is blocked")
		if did := s.api.did(); len(did) != 1 {
			t.Errorf("changed: %q", did)
		}
	}
}

func TestSessionsAreBoundedAndEnd(t *testing.T) {
	now := night
	api := busy(t)
	p := page.New(page.Options{Enter: page.ByToken(api, true), Now: func() time.Time { return now }, Log: quiet})
	s := &site{t, api, serveOn(t, p)}
	first := s.signedIn()
	now = now.Add(11 * time.Hour)
	first.says(first.get("/"), 200, "Sign out")
	now = now.Add(11 * time.Hour) // a visit lengthens it
	first.says(first.get("/"), 200, "Sign out")
	now = now.Add(13 * time.Hour)
	first.says(first.get("/"), 200, "Sign in")

	first = s.signedIn()
	now = now.Add(time.Second)
	last := s.crowd(100, func(int) string { return token })
	first.says(first.get("/"), 200, "Sign in")
	last.says(last.get("/"), 200, "Sign out")
}

func TestOneTokenDoesNotSignOutTheVisitorsOfAnother(t *testing.T) {
	now := night
	api := busy(t)
	enter := func(_ context.Context, given string) (*client.Client, error) {
		if given == "" {
			return nil, page.ErrSignIn
		}
		return inside.Client(api, token), nil
	}
	s := &site{t, api, serveOn(t, page.New(page.Options{Enter: enter, Now: func() time.Time { return now }, Log: quiet}))}
	with := func(n int, given func(i int) string) *visitor {
		return s.crowd(n, func(i int) string {
			now = now.Add(time.Second)
			return given(i)
		})
	}
	one := func(given string) *visitor { return with(1, func(int) string { return given }) }
	operators := []*visitor{one("to operate"), one("to operate"), one("to send")}
	first := one("to read")
	last := with(150, func(int) string { return "to read" })
	for _, v := range operators {
		v.says(v.get("/"), 200, "Sign out")
	}
	first.says(first.get("/"), 200, "Sign in")
	last.says(last.get("/"), 200, "Sign out")

	// However many secrets let visitors in, the number of sessions is bounded.
	first = one("a secret")
	last = with(150, func(i int) string { return "secret " + strconv.Itoa(i) })
	first.says(first.get("/"), 200, "Sign in")
	last.says(last.get("/"), 200, "Sign out")
}

func TestADashboardIsForWhoHasItsLink(t *testing.T) {
	api := busy(t)
	open := page.ByToken(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+token)
		api.ServeHTTP(w, r)
	}), false)
	c, err := open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	p := page.New(page.Options{Enter: page.ByLink(c, "the link's secret"), Link: true, Of: "https://api.example/live", Now: func() time.Time { return night }, Log: quiet})
	s := &site{t, api, serveOn(t, p)}
	v := s.visitor()
	v.says(v.get("/"), 200, "Sign in")
	v.says(v.get("/sign-in?secret=another"), 403, "is wrong")
	in := v.get("/sign-in?secret=" + url.QueryEscape("the link's secret"))
	v.says(in, 200, "mastodon.down.example", "https://api.example/live")
	if in.Request.URL.String() != s.url+"/" {
		t.Errorf("the secret stays in the address: %s", in.Request.URL)
	}
}

// TestAReaderIsOfferedNothingToDo: no page of a visitor who may only read has a link to an
// action or a form but the one to sign out, and actions whose address is known are refused.
func TestAReaderIsOfferedNothingToDo(t *testing.T) {
	offered := regexp.MustCompile(`(?:href|action)="[^"]*/(?:block|unblock|pause|resume|forget|check|limit|cancel|retry|drop|new|delete|test|change)[?"]|class="button danger"|>Actions<|method="post" action="/[^s]`)
	pages := []string{"/", "/servers", "/servers/mastodon.down.example", "/servers/hub.example", "/dead", "/dead?host=hub.example", "/activities", "/activities/" + anActivity, "/events", "/webhooks", "/keys", "/keys?id=" + url.QueryEscape(aKey)}
	asks := []string{"/servers/hub.example/block", "/activities/" + anActivity + "/cancel", "/webhooks/new", "/webhooks/pager/delete", "/keys/new", "/keys/" + url.PathEscape(aKey) + "/delete", "/dead/retry?host=hub.example"}
	for _, reads := range []bool{true, false} {
		api := busy(t)
		api.reads = reads
		s := serve(t, api, true)
		v := s.signedIn()
		offers := 0
		for _, path := range pages {
			p := v.get(path)
			v.says(p, 200, "Sign out")
			found := offered.FindAllString(p.text, -1)
			offers += len(found)
			if reads && found != nil {
				t.Errorf("%s offers %q to a reader", path, found)
			}
		}
		if !reads && offers < 20 {
			t.Errorf("an operator is offered %d actions on %d pages: the test looks for the wrong words", offers, len(pages))
		}
		for _, path := range asks {
			if reads {
				v.says(v.get(path), 403, "This token is read-only")
				where, _, _ := strings.Cut(path, "?")
				v.says(v.post(where, "host", "hub.example"), 403, "This token is read-only")
			} else {
				v.says(v.get(path), 200, "Do nothing")
			}
		}
		if did := s.api.did(); did != nil {
			t.Errorf("changed: %q", did)
		}
	}
}
