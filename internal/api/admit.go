package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"fedpost/internal/api/problem"
)

type authorizedKey struct{}

// OnAuthorized returns a context for requests. The API calls f each time it has authorised a
// request with it.
func OnAuthorized(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, authorizedKey{}, f)
}

// crossOrigin recognises requests that a browser sends for a page of another site.
var crossOrigin = http.NewCrossOriginProtection()

// admit decides by its headers whether a request is served. The error is the answer; h gets
// the answer's headers of rate limits.
func (a *API) admit(h http.Header, r *http.Request, pattern string, public bool) error {
	// A page of any site can make a browser send a request to 127.0.0.1, without a body or
	// with one of plain text. Such a request must change nothing.
	err := crossOrigin.Check(r)
	if err == nil && !public && fromOtherSite(r) {
		// The page cannot read the answer, but the request would count in the rate limit.
		err = errOtherSite
	}
	if err != nil {
		return problem.New(http.StatusForbidden,
			"A page of another site sent this request, says the browser (Sec-Fetch-Site, Origin). Such requests are refused.").Because(err)
	}
	if public {
		return nil
	}
	who, refusal := a.o.Tokens.authorize(r, pattern)
	if over := a.limits.take(h, who, a.o.Now()); over != nil {
		if a.o.Counted != nil {
			a.o.Counted(Limited, 1)
		}
		return over
	}
	if refusal != nil {
		return refusal
	}
	if authorized, ok := r.Context().Value(authorizedKey{}).(func()); ok {
		authorized()
	}
	// A form in a browser cannot send JSON, so even routes that ignore the body require it.
	if r.Method != http.MethodGet && r.Method != http.MethodHead && (r.ContentLength != 0 || r.Header.Get("Content-Type") != "") {
		return checkMediaType(r.Header)
	}
	return nil
}

var errOtherSite = errors.New("a page of another site reads")

// fromOtherSite reports whether a browser says that a page of another origin has caused the
// request. https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header
func fromOtherSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

// turnAway refuses a request whose body was not read. It closes the connection, which the
// client could otherwise keep open by sending the body slowly.
func (a *API) turnAway(w http.ResponseWriter, r *http.Request, err error) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		// net/http would first read up to 256 KB of the body. On Lambda there is no
		// connection, and the call fails.
		if err := http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			a.o.Log.DebugContext(r.Context(), "cannot stop reading a refused request", "error", err)
		}
	}
	Fail(w, r, err)
}

// limits are the rate limits: one for each role, and one for all requests without a valid token,
// which also limits how fast tokens can be guessed. Strangers cannot make the table of limits grow.
type limits struct {
	perMinute int
	by        map[string]*rate.Limiter // by role; "": without a valid token
}

// newLimits returns the limits of an API, nil if it has none.
func newLimits(perMinute int, t Tokens) *limits {
	if perMinute <= 0 {
		return nil
	}
	l := &limits{perMinute: perMinute, by: map[string]*rate.Limiter{"": nil}}
	for _, r := range t.roles() {
		l.by[r.name] = nil
	}
	for who := range l.by {
		l.by[who] = rate.NewLimiter(l.rate(), perMinute)
	}
	return l
}

func (l *limits) rate() rate.Limit { return rate.Limit(float64(l.perMinute) / 60) }

// take counts a request, and sets the headers of h. The problem, if there is one, is the
// answer.
// https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/10/
func (l *limits) take(h http.Header, who string, now time.Time) *problem.Problem {
	if l == nil {
		return nil
	}
	limiter, name := l.by[who], cmp.Or(who, "anyone")
	allowed := limiter.AllowN(now, 1)
	left := max(0, limiter.TokensAt(now))
	seconds := func(tokens float64) float64 { return math.Ceil(tokens/float64(l.rate()) - 1e-6) }
	h.Set("RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=60", name, l.perMinute))
	h.Set("RateLimit", fmt.Sprintf("%q;r=%d;t=%.0f", name, int(left), seconds(float64(l.perMinute)-left)))
	if allowed {
		return nil
	}
	whose := "with this token"
	if who == "" {
		whose = "without a valid token"
	}
	return problem.New(http.StatusTooManyRequests,
		fmt.Sprintf("Requests %s are limited to %d a minute. Send several activities in one request, or follow events instead of asking for each activity.", whose, l.perMinute)).
		After(time.Duration(max(1, seconds(1-left))) * time.Second)
}

// Tokens are the Bearer tokens of `fedpost up`, one for each role; on AWS, IAM policies take
// their place. A role with an empty token cannot be used; if all are empty, everybody may do
// everything.
type Tokens struct {
	// Send is for servers that send: all routes below /v1/activities.
	Send string
	// App is for applications that keep their users' keys in fedpost: Send's routes, those
	// below /v1/keys, and the feed of events.
	App string
	// Read is for monitoring, such as Prometheus: GET on all routes.
	Read string
	// Operate is for operators: all routes.
	Operate string
}

// None reports whether no token is set.
func (t Tokens) None() bool { return t == Tokens{} }

// role is a token, and the routes that it may use.
type role struct {
	name  string
	token string
	// opens reports whether the token may use the route of a pattern, METHOD PATH.
	opens func(pattern string) bool
}

func (t Tokens) roles() []role {
	return []role{
		{"send", t.Send, func(pattern string) bool { return below(pattern, "/v1/activities") }},
		{"app", t.App, func(pattern string) bool {
			return below(pattern, "/v1/activities") || below(pattern, "/v1/keys") || pattern == "GET /v1/events"
		}},
		{"read", t.Read, func(pattern string) bool { return strings.HasPrefix(pattern, "GET ") }},
		{"operate", t.Operate, func(string) bool { return true }},
	}
}

// below reports whether a pattern's path is one, or below it.
func below(pattern, path string) bool {
	_, got, _ := strings.Cut(pattern, " ")
	return got == path || strings.HasPrefix(got, path+"/")
}

// authorize checks the Bearer token of a request, and whether it may use the route of the
// pattern, "" for a path without a route. It returns the name of the token's role, "" if the
// token is invalid, and the answer if the request is refused. It compares digests, because
// their equal length does not reveal that of a token. https://www.rfc-editor.org/rfc/rfc6750
func (t Tokens) authorize(r *http.Request, pattern string) (who string, refusal *problem.Problem) {
	if t.None() {
		return "", nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if got := sha256.Sum256([]byte(token)); token != "" && strings.EqualFold(scheme, "Bearer") {
		for _, role := range t.roles() {
			want := sha256.Sum256([]byte(role.token))
			if role.token == "" || subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
				continue
			}
			if pattern == "" || role.opens(pattern) {
				return role.name, nil
			}
			return role.name, refused(http.StatusForbidden, `Bearer realm="fedpost", error="insufficient_scope"`,
				"This token has the role "+role.name+", which may not use this route. Use the token of FEDPOST_API_TOKEN, which may use all.")
		}
		return "", refused(http.StatusUnauthorized, `Bearer realm="fedpost", error="invalid_token"`, "The token is invalid: compare it with FEDPOST_API_TOKEN of this fedpost.")
	}
	return "", refused(http.StatusUnauthorized, `Bearer realm="fedpost"`, "Send the API token: Authorization: Bearer …")
}

func refused(status int, challenge, detail string) *problem.Problem {
	p := problem.New(status, detail)
	p.Header = http.Header{"Www-Authenticate": {challenge}}
	return p
}
