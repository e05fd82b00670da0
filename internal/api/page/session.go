package page

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"fedpost/client"
	"fedpost/internal/api/inside"
)

const (
	cookieName = "fedpost_session"
	// idle is how long a session lives without a request.
	idle = 12 * time.Hour
	// mostSessions is how many visitors may be signed in. Beyond that, the longest idle session
	// of the secret with most sessions ends, so that visitors with one token cannot sign out
	// those with another.
	mostSessions = 100
)

func secret() string { return rand.Text() }

// session is a visitor who has signed in. The cookie holds the session's name, not the token:
// browsers send a cookie to every port of a host.
type session struct {
	api  *client.Client
	form string // secret in the visitor's forms, against requests of other sites
	seen time.Time
	with [sha256.Size]byte // digest of the secret that the visitor signed in with
	// reads: the visitor's token is read-only.
	reads bool
}

type sessions struct {
	now func() time.Time

	mu  sync.Mutex
	all map[string]session
}

func (s *sessions) add(api *client.Client, given string, reads bool) (name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]session{}
	}
	with := sha256.Sum256([]byte(given))
	if len(s.all) >= mostSessions {
		delete(s.all, s.givesWay(with))
	}
	name = secret()
	s.all[name] = session{api: api, form: secret(), seen: s.now(), with: with, reads: reads}
	return name
}

// givesWay is the session that ends so that another one with this secret can begin.
func (s *sessions) givesWay(with [sha256.Size]byte) (oldest string) {
	of := map[[sha256.Size]byte]int{with: 1} // the new one
	for _, one := range s.all {
		of[one.with]++
	}
	for name, one := range s.all {
		if before := s.all[oldest]; oldest == "" || of[one.with] > of[before.with] ||
			of[one.with] == of[before.with] && one.seen.Before(before.seen) {
			oldest = name
		}
	}
	return oldest
}

func (s *sessions) get(name string) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.all[name]
	if !ok {
		return session{}, false
	}
	now := s.now()
	if now.Sub(one.seen) > idle {
		delete(s.all, name)
		return session{}, false
	}
	one.seen = now
	s.all[name] = one
	return one, true
}

func (s *sessions) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, name)
}

func (p *Page) signedIn(r *http.Request) (s session, name string, ok bool) {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return session{}, "", false
	}
	s, ok = p.sessions.get(c.Value)
	return s, c.Value, ok
}

// sessionOf is the session of a visitor, who may not need to sign in.
func (p *Page) sessionOf(r *http.Request) (session, bool) {
	if s, _, ok := p.signedIn(r); ok {
		return s, true
	}
	api, err := p.o.Enter(r.Context(), "")
	if err != nil {
		return session{}, false
	}
	return session{api: api, form: p.open.form}, true
}

func cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		// Set by a proxy that terminates TLS; a false value harms its sender only.
		Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https"),
	}
}

// askSecret shows the form, or takes the secret of a link, which `fedpost dashboard`
// prints.
func (p *Page) askSecret(w http.ResponseWriter, r *http.Request) {
	if s := r.URL.Query().Get("secret"); s != "" && p.o.Link {
		p.enter(w, r, s)
		return
	}
	p.render(w, r, http.StatusOK, "sign-in", view{Title: "Sign in", Data: p.o.Secret})
}

func (p *Page) signIn(w http.ResponseWriter, r *http.Request) {
	p.enter(w, r, r.PostFormValue("secret"))
}

func (p *Page) enter(w http.ResponseWriter, r *http.Request, given string) {
	given = strings.TrimSpace(given)
	api, err := p.o.Enter(r.Context(), given)
	switch {
	case given == "" || errors.Is(err, ErrSignIn):
		p.render(w, r, http.StatusForbidden, "sign-in", view{Title: "Sign in", Error: "This " + p.o.Secret + " is wrong.", Data: p.o.Secret})
		return
	case err != nil:
		p.failed(w, r, nil, err)
		return
	}
	http.SetCookie(w, cookie(r, p.sessions.add(api, given, readsOnly(r.Context(), api)), int(idle.Seconds())))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// readsOnly reports whether a token is read-only, by a request to check a server with an
// invalid name, which changes nothing.
func readsOnly(ctx context.Context, api *client.Client) bool {
	_, err := api.CheckServer(ctx, "no name")
	_, refused := refusedWith(http.StatusForbidden, err)
	return refused
}

func (p *Page) signOut(v *visit) error {
	if _, name, ok := p.signedIn(v.r); ok {
		p.sessions.drop(name)
	}
	http.SetCookie(v.w, cookie(v.r, "", -1))
	http.Redirect(v.w, v.r, "/sign-in", http.StatusSeeOther)
	return nil
}

// ownForm reports whether a POST comes from a form that was rendered for the session.
func (s session) ownForm(r *http.Request) bool {
	return subtle.ConstantTimeCompare([]byte(r.PostFormValue("form")), []byte(s.form)) == 1
}

// ByToken signs visitors in with a token of an API in the same process, or without if the API
// needs none. The API decides at each request what the visitor may do.
func ByToken(api http.Handler, needed bool) func(context.Context, string) (*client.Client, error) {
	return func(ctx context.Context, token string) (*client.Client, error) {
		c := inside.Client(api, token)
		if !needed {
			return c, nil
		}
		if token == "" {
			return nil, ErrSignIn
		}
		err := c.Do(ctx, http.MethodGet, "/v1/servers?limit=1", nil, nil)
		if p, ok := errors.AsType[*client.Problem](err); ok && (p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden) {
			return nil, errors.Join(ErrSignIn, err)
		}
		return c, err
	}
}

// ByLink signs visitors in with a secret, to use a client that has credentials of its own. The
// link with the secret is printed on the terminal of their owner.
func ByLink(c *client.Client, secret string) func(context.Context, string) (*client.Client, error) {
	want := sha256.Sum256([]byte(secret))
	return func(_ context.Context, given string) (*client.Client, error) {
		got := sha256.Sum256([]byte(given))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			return nil, ErrSignIn
		}
		return c, nil
	}
}
