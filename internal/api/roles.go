package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"fedpost/internal/api/problem"
)

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
