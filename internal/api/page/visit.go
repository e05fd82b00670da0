package page

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"fedpost/client"
)

// visit is one request of a visitor who was let in.
type visit struct {
	w http.ResponseWriter
	r *http.Request
	session
	page *Page
}

// within serves visitors who were let in, and sends others to sign in.
func (p *Page) within(serve func(*visit) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, ok := p.sessionOf(r)
		if !ok {
			http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
			return
		}
		v := &visit{w: w, r: r, session: s, page: p}
		if r.Method == http.MethodPost && !s.ownForm(r) {
			p.fail(w, r, v, http.StatusForbidden, "This form is not of your present session: fedpost was started again meanwhile, or you have signed in again. Go back, reload the page and repeat it.")
			return
		}
		if err := serve(v); err != nil {
			p.failed(w, r, v, err)
		}
	})
}

// acting serves visitors who may change something. The API would refuse the others at the
// end of a form that they have filled in.
func acting(serve func(*visit) error) func(*visit) error {
	return func(v *visit) error {
		if v.reads {
			return refuse(http.StatusForbidden, "This token reads only. Sign out, and sign in with one that may do this.")
		}
		return serve(v)
	}
}

// refuse is a refusal of the page itself.
func refuse(status int, detail string) error {
	return &client.Problem{Status: status, Title: http.StatusText(status), Detail: detail}
}

// problemOf is the API's answer in an error.
func problemOf(err error) (*client.Problem, bool) {
	var p *client.Problem
	ok := errors.As(err, &p)
	return p, ok
}

// failed answers with an error. An error of the API has its own words.
func (p *Page) failed(w http.ResponseWriter, r *http.Request, v *visit, err error) {
	var problem *client.Problem
	switch {
	case errors.As(err, &problem) && problem.Status == http.StatusUnauthorized && v != nil:
		// The token that the session was opened with is no longer the right one.
		if _, name, ok := p.signedIn(r); ok {
			p.sessions.drop(name)
			http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
			return
		}
		p.fail(w, r, v, problem.Status, problem.Error())
	case errors.As(err, &problem):
		words := problem.Detail
		if words == "" {
			words = problem.Title
		}
		for _, e := range problem.Errors {
			words += " " + e.Detail + "."
		}
		p.fail(w, r, v, problem.Status, words)
	case errors.Is(err, context.Canceled):
		// The visitor has left.
	default:
		p.o.Log.ErrorContext(r.Context(), "page", "path", r.URL.Path, "error", err)
		p.fail(w, r, v, http.StatusBadGateway, "fedpost does not answer: "+err.Error())
	}
}

func (p *Page) fail(w http.ResponseWriter, r *http.Request, v *visit, status int, words string) {
	shown := view{Title: "That did not work", Error: words, Data: status}
	if v != nil {
		v.show(status, "error", shown)
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

// show renders a page for the visitor.
func (v *visit) show(status int, name string, shown view) {
	_, _, shown.SignedIn = v.page.signedIn(v.r)
	shown.Inside, shown.Form, shown.Reads = true, v.form, v.reads
	if name != "overview" && status < http.StatusInternalServerError {
		shown.Stopped = v.stopped()
	}
	v.page.render(v.w, v.r, status, name, shown)
}

// stopped says why nothing can be written, so that no page passes for one of a fedpost that
// works; "": it can, or it is not known. The overview has it among its problems, and a
// failure its cause.
func (v *visit) stopped() string {
	if p, ok := problemOf(v.get("/healthz", nil, &client.Health{})); ok && p.Status == http.StatusServiceUnavailable {
		return p.Detail
	}
	return ""
}

// back goes on to a page after an action; done names what was done (see done.go).
func (v *visit) back(path, done string) error {
	http.Redirect(v.w, v.r, path+"?done="+url.QueryEscape(done), http.StatusSeeOther)
	return nil
}

func (v *visit) now() time.Time { return v.page.o.Now() }
