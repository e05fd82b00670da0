package api_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"fedpost/internal/api"
	"fedpost/internal/api/problem"
)

func token(s string) func(*api.Options) { return func(o *api.Options) { o.Tokens.Operate = s } }

func extra(pattern string, public bool, f func(http.ResponseWriter, *http.Request) error) func(*api.Options) {
	return func(o *api.Options) {
		o.Routes = append(o.Routes, api.Route{Pattern: pattern, Public: public, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r); err != nil {
				api.Fail(w, r, err)
			}
		})})
	}
}

// logged returns the last line of the log.
func (w *world) logged() map[string]any {
	w.Helper()
	lines := strings.Split(strings.TrimSpace(w.log.String()), "\n")
	var v map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &v); err != nil {
		w.Fatal(err)
	}
	return v
}

func TestTheTokenIsAskedForOnAllButPublicRoutes(t *testing.T) {
	const token = "a long and secret token"
	w := newWorld(t, func(o *api.Options) { o.Tokens.Operate = token },
		extra("GET /open", true, func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(204); return nil }),
		extra("GET /v1/private", false, func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(204); return nil }))
	for _, path := range []string{"/healthz", "/open"} {
		if res := w.do("GET", path, ""); res.Status >= 400 {
			t.Errorf("%s: %d", path, res.Status)
		}
	}
	for _, given := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Bearer " + token + "x", "Bearer " + token[1:], "Basic " + token, token, "Bearer  " + token} {
		for _, path := range []string{"/v1/private", "/v1/keys/x", "/nowhere"} {
			res := w.do("GET", path, "", "Authorization", given)
			says := "Send the API token: Authorization: Bearer"
			if scheme, wrong, _ := strings.Cut(given, " "); scheme == "Bearer" && wrong != "" {
				says = "The token is invalid"
			}
			refused(t, res, http.StatusUnauthorized, says)
			if !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("WWW-Authenticate is %q", res.Header.Get("WWW-Authenticate"))
			}
		}
	}
	for _, given := range []string{"Bearer " + token, "bearer " + token} {
		if res := w.do("GET", "/v1/private", "", "Authorization", given); res.Status != 204 {
			t.Errorf("%q: %d", given, res.Status)
		}
	}
	if res := w.do("GET", "/nowhere", "", "Authorization", "Bearer "+token); res.Status != 404 {
		t.Errorf("an unknown route: %d", res.Status)
	}
	if strings.Contains(w.log.String(), token) {
		t.Error("the token is in the log")
	}
}

func TestWithoutATokenNobodyIsAsked(t *testing.T) {
	if res := newWorld(t).do("GET", "/v1/keys/x", ""); res.Status != 404 {
		t.Errorf("answered %d", res.Status)
	}
}

func TestEveryRequestHasAnIDAndALine(t *testing.T) {
	w := newWorld(t).withKey()
	res := w.do("POST", "/v1/activities", submission(), "X-Request-Id", "from-the-client")
	if got := res.Header.Get("X-Request-Id"); got != "from-the-client" {
		t.Errorf("id is %q", got)
	}
	line := w.logged()
	if line["request"] != "from-the-client" || line["route"] != "POST /v1/activities" || line["status"] != 202.0 || line["level"] != "INFO" {
		t.Errorf("logged %v", line)
	}
	for _, odd := range []string{"", "a b", "a\tb", "ключ", strings.Repeat("x", 129)} {
		res := w.do("GET", "/nowhere", "", "X-Request-Id", odd)
		own := res.Header.Get("X-Request-Id")
		if !strings.HasPrefix(own, "request-") || res.json(t)["requestId"] != own || w.logged()["request"] != own {
			t.Errorf("%q became %q, %s", odd, own, res.Body)
		}
	}
}

func TestAnAnswerIsNotCachedNorSniffed(t *testing.T) {
	h := newWorld(t).do("GET", "/healthz", "").Header
	if h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", h)
	}
}

func TestAPanicIsA500AndTheNextRequestIsServed(t *testing.T) {
	w := newWorld(t, extra("GET /panic", false, func(http.ResponseWriter, *http.Request) error { panic("secret state") }))
	refused(t, w.do("GET", "/panic", ""), http.StatusInternalServerError, "request id")
	if res := w.do("GET", "/panic", ""); strings.Contains(res.Body, "secret state") {
		t.Errorf("the client is told: %s", res.Body)
	}
	if log := w.log.String(); !strings.Contains(log, "secret state") || !strings.Contains(log, "observe_test.go") {
		t.Errorf("the log lacks panic or stack: %s", log)
	}
	if line := w.logged(); line["status"] != 500.0 || line["level"] != "ERROR" {
		t.Errorf("logged %v", line)
	}
	if res := w.do("GET", "/healthz", ""); res.Status != 200 {
		t.Errorf("afterwards %d", res.Status)
	}
}

func TestOnlyAFaultOfOursIsLoggedAsAnError(t *testing.T) {
	status := 0
	answer := func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(status); return nil }
	w := newWorld(t, extra("GET /open", true, answer), extra("GET /v1/private", false, answer))
	for _, tt := range []struct {
		status       int
		open, closed string
	}{
		{404, "INFO", "INFO"}, {500, "ERROR", "ERROR"}, {502, "INFO", "ERROR"}, {503, "INFO", "ERROR"},
	} {
		status = tt.status
		for path, want := range map[string]string{"/open": tt.open, "/v1/private": tt.closed} {
			w.do("GET", path, "")
			if line := w.logged(); line["level"] != want || line["status"] != float64(status) {
				t.Errorf("%s: %v, want %s", path, line, want)
			}
		}
	}
}

func TestAnAbortedHandlerIsNotAnswered(t *testing.T) {
	w := newWorld(t, extra("GET /abort", false, func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }))
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("recovered %v, want the server to abort the connection", v)
		}
	}()
	w.do("GET", "/abort", "")
}

func TestAPanicAfterTheAnswerHasBegunDoesNotAddToIt(t *testing.T) {
	w := newWorld(t, extra("GET /late", false, func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(200)
		panic("late")
	}))
	if res := w.do("GET", "/late", ""); res.Status != 200 || res.Body != "" {
		t.Errorf("answered %d %q", res.Status, res.Body)
	}
}

func TestErrorsOfHandlersAreProblemsAndTheirCausesAreLogged(t *testing.T) {
	shared := problem.New(http.StatusTeapot, "short and stout").Because(http.ErrBodyNotAllowed)
	w := newWorld(t,
		extra("GET /known", false, func(http.ResponseWriter, *http.Request) error { return shared }),
		extra("GET /unknown", false, func(http.ResponseWriter, *http.Request) error { return http.ErrNotSupported }))
	refused(t, w.do("GET", "/known", ""), http.StatusTeapot, "short and stout")
	if line := w.logged(); line["error"] != http.ErrBodyNotAllowed.Error() {
		t.Errorf("logged %v", line)
	}
	if shared.RequestID != "" {
		t.Error("one request's id is in a problem that requests share")
	}
	res := w.do("GET", "/unknown", "")
	refused(t, res, http.StatusInternalServerError, "our side")
	if line := w.logged(); line["error"] != http.ErrNotSupported.Error() || strings.Contains(res.Body, "not supported") {
		t.Errorf("logged %v, answered %s", line, res.Body)
	}
}

func TestTheAPIServesOverRealConnections(t *testing.T) {
	w := newWorld(t)
	srv := httptest.NewServer(w.api)
	defer srv.Close()
	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "DELETE": 405} {
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != want {
			t.Errorf("%s: %d, %v", method, res.StatusCode, err)
		}
	}
}

// TestWhoIsTurnedAwayIsNotWaitedFor: if a request is refused by its header, its body may never
// come.
func TestWhoIsTurnedAwayIsNotWaitedFor(t *testing.T) {
	w := newWorld(t, token("a long and secret token"))
	srv := httptest.NewServer(w.api)
	defer srv.Close()
	for request, want := range map[string]string{
		"POST /v1/activities HTTP/1.1\r\nHost: localhost\r\n":                               "401",
		"POST /v1/activities HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n": "403",
		"POST /healthz HTTP/1.1\r\nHost: localhost\r\n":                                     "401",
	} {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, request+"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		// It ends when the server closes the connection.
		answer, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+want) || !strings.Contains(string(answer), "\r\nConnection: close\r\n") {
			t.Errorf("%q is answered %q, %v; want %s", request, answer, err, want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAMethodWithoutEndDoesNotReachTheLog(t *testing.T) {
	w := newWorld(t)
	method := strings.Repeat("X", 60_000)
	res := w.do(method, "/healthz", "")
	if n := len(w.log.String()); n > 2000 {
		t.Errorf("a request makes %d bytes of log", n)
	}
	if len(res.Body) > 2000 {
		t.Errorf("and is answered %d bytes", len(res.Body))
	}
}
