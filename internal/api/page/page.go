// Package page serves the operator's page: what is wrong, why, what happens next, and what
// can be done.
//
// The page uses only the API's client. So `fedpost up` serves it for itself and `fedpost
// dashboard` for any fedpost, and a visitor may do on the page what their token or role may do
// with the API.
//
// Pages are rendered on the server and work without script; the script refreshes them. All
// files are embedded, and the Content-Security-Policy allows no others.
package page

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"fedpost/client"
	"fedpost/internal/api/inside"
)

var ErrSignIn = errors.New("wrong secret")

type Options struct {
	// Enter returns the client for a visitor with a secret, or an error that wraps ErrSignIn.
	// For visitors who have not signed in the secret is empty.
	Enter func(ctx context.Context, secret string) (*client.Client, error)
	// Link: the secret may be in a link, too. API tokens must not be, as browsers keep
	// addresses; the secret of `fedpost dashboard` is valid for one process only.
	Link bool
	// Secret is the secret's name in the form, such as "API token".
	Secret string
	// Of names the fedpost that is shown, unless it is the one that serves the page.
	Of  string
	Now func() time.Time
	Log *slog.Logger
}

// Page is the handler of the page.
type Page struct {
	o        Options
	mux      *http.ServeMux
	sessions sessions
	open     session // of visitors who need not sign in
	origin   *http.CrossOriginProtection
	lately   inside.Lately
}

func New(o Options) *Page {
	o.Secret = cmp.Or(o.Secret, "API token")
	p := &Page{o: o, mux: http.NewServeMux(), sessions: sessions{now: o.Now}, origin: http.NewCrossOriginProtection()}
	p.lately = inside.Lately{Every: time.Minute, Now: o.Now}
	p.open = session{form: secret()}
	p.mux.HandleFunc(unknown, func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, r, nil, http.StatusNotFound, "There is no such page.")
	})
	p.mux.HandleFunc("GET /assets/{name}", p.asset)
	p.mux.HandleFunc("GET /sign-in", p.askSecret)
	p.mux.HandleFunc("POST /sign-in", p.signIn)
	p.mux.Handle("POST /sign-out", p.within(p.signOut))
	for pattern, serve := range map[string]func(*visit) error{
		"GET /{$}":             p.overview,
		"GET /servers":         p.servers,
		"GET /servers/{name}":  p.server,
		"GET /activities":      p.activities,
		"GET /activities/{id}": p.activity,
		"GET /events":          p.events,
		"GET /events/stream":   p.stream,
		"GET /webhooks":        p.webhooks,
		"GET /keys":            p.keys,
		"GET /dead":            p.dead,
	} {
		p.mux.Handle(pattern, p.within(serve))
	}
	for pattern, serve := range map[string]func(*visit) error{
		"GET /servers/{name}/{act}":   p.askServer,
		"POST /servers/{name}/{act}":  p.actServer,
		"GET /activities/{id}/{act}":  p.askActivity,
		"POST /activities/{id}/{act}": p.actActivity,
		"GET /webhooks/new":           p.newWebhook,
		"POST /webhooks/new":          p.addWebhook,
		"GET /webhooks/{id}/{act}":    p.askWebhook,
		"POST /webhooks/{id}/{act}":   p.actWebhook,
		"GET /keys/new":               p.newKey,
		"POST /keys/new":              p.addKey,
		"GET /keys/{id}/delete":       p.askKey,
		"POST /keys/{id}/delete":      p.deleteKey,
		"GET /dead/{act}":             p.askDead,
		"POST /dead/{act}":            p.actDead,
	} {
		p.mux.Handle(pattern, p.within(acting(serve)))
	}
	return p
}

// unknown is the pattern of all other paths.
const unknown = "GET /"

var ofAPI = []string{"/v1/", "/discover", "/healthz"}

// Serves reports whether a request is for the page, not for the API. Unknown addresses are the
// page's if a browser asks.
func (p *Page) Serves(r *http.Request) bool {
	_, pattern := p.mux.Handler(r)
	if pattern != unknown {
		return pattern != ""
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html") && !slices.ContainsFunc(ofAPI, func(begin string) bool { return strings.HasPrefix(r.URL.Path, begin) })
}

// policy is the Content-Security-Policy: the page's own files and forms only.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// mostForm is the longest body of a form, in bytes.
const mostForm = 64 << 10

func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	// Without a Referer browsers send "Origin: null" with forms, which CrossOriginProtection
	// refuses where they send no Sec-Fetch-Site: over plain HTTP.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if err := p.origin.Check(r); err != nil {
		p.o.Log.WarnContext(r.Context(), "refused a request from a page of another site", "error", err)
		p.fail(w, r, nil, http.StatusForbidden, "This request came from a page of another site. It was refused.")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	p.mux.ServeHTTP(w, r)
}
