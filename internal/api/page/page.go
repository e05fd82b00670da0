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
	"net/url"
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

// visit is one request of a signed-in visitor.
type visit struct {
	w http.ResponseWriter
	r *http.Request
	session
	page *Page
}

// within serves visitors who are signed in, and sends others to sign in.
func (p *Page) within(serve func(*visit) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, ok := p.sessionOf(r)
		if !ok {
			http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
			return
		}
		v := &visit{w: w, r: r, session: s, page: p}
		if r.Method == http.MethodPost && !s.ownForm(r) {
			p.fail(w, r, v, http.StatusForbidden, "This form belongs to an earlier session: fedpost was restarted, or you signed in again. Go back, reload the page and repeat the action.")
			return
		}
		if err := serve(v); err != nil {
			p.failed(w, r, v, err)
		}
	})
}

// acting serves visitors who may change something. The API would refuse others only after
// they have filled in a form.
func acting(serve func(*visit) error) func(*visit) error {
	return func(v *visit) error {
		if v.reads {
			return refuse(http.StatusForbidden, "This token is read-only. Sign out, and sign in with a token that may do this.")
		}
		return serve(v)
	}
}

func refuse(status int, detail string) error {
	return &client.Problem{Status: status, Title: http.StatusText(status), Detail: detail}
}

// refusedWith returns the API's problem if err is one of a status.
func refusedWith(status int, err error) (*client.Problem, bool) {
	p, ok := errors.AsType[*client.Problem](err)
	return p, ok && p.Status == status
}

// failed answers with an error, in the API's words if it is the API's.
func (p *Page) failed(w http.ResponseWriter, r *http.Request, v *visit, err error) {
	problem, ofAPI := errors.AsType[*client.Problem](err)
	switch {
	case ofAPI && problem.Status == http.StatusUnauthorized && v != nil:
		// The session's token is no longer valid.
		if _, name, ok := p.signedIn(r); ok {
			p.sessions.drop(name)
			http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
			return
		}
		p.fail(w, r, v, problem.Status, problem.Error())
	case ofAPI:
		words := cmp.Or(problem.Detail, problem.Title)
		for _, e := range problem.Errors {
			words += " " + e.Detail + "."
		}
		p.fail(w, r, v, problem.Status, words)
	case errors.Is(err, context.Canceled):
		// The visitor has left.
	default:
		p.o.Log.ErrorContext(r.Context(), "the API did not answer the operator's page", "path", r.URL.Path, "error", err)
		p.fail(w, r, v, http.StatusBadGateway, "fedpost does not answer: "+err.Error())
	}
}

func (p *Page) fail(w http.ResponseWriter, r *http.Request, v *visit, status int, words string) {
	shown := view{Title: "That did not work", Error: words, Data: status}
	if v != nil {
		v.showAs(status, "error", shown)
		return
	}
	p.render(w, r, status, "error", shown)
}

// get reads something from the API.
func (v *visit) get(path string, query url.Values, out any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return v.api.Do(v.r.Context(), http.MethodGet, path, nil, out)
}

func (v *visit) show(name string, shown view) error {
	v.showAs(http.StatusOK, name, shown)
	return nil
}

func (v *visit) showAs(status int, name string, shown view) {
	_, _, shown.SignedIn = v.page.signedIn(v.r)
	shown.Inside, shown.Form, shown.Reads = true, v.form, v.reads
	if name != "overview" && status < http.StatusInternalServerError {
		shown.Stopped = v.stopped()
	}
	v.page.render(v.w, v.r, status, name, shown)
}

// stopped says why nothing can be written, for all pages but the overview, which has it among
// its problems; "": writing works, or that is not known.
func (v *visit) stopped() string {
	_, err := v.api.Health(v.r.Context())
	if p, ok := refusedWith(http.StatusServiceUnavailable, err); ok {
		return p.Detail
	}
	return ""
}

// ask shows a question, whose form goes to its own address.
func (v *visit) ask(nav string, q question) error {
	q.Where = v.r.URL.EscapedPath()
	return v.show("ask", view{Title: q.Title, Nav: nav, Data: q})
}

// back redirects to a page after an action, unless that has failed; done is the name of a text in the
// map done.
func (v *visit) back(path, done string, err error) error {
	if err != nil {
		return err
	}
	http.Redirect(v.w, v.r, path+"?done="+url.QueryEscape(done), http.StatusSeeOther)
	return nil
}

func (v *visit) now() time.Time { return v.page.o.Now() }
