package page

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"fedpost/client"
)

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
