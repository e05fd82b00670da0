package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"

	"fedpost/internal/api/contract"
)

// crossOrigin tells the requests that a browser sends for a page of another site.
var crossOrigin = http.NewCrossOriginProtection()

// admit decides by its headers whether a request is served. Its error is the
// answer.
func (a *API) admit(r *http.Request, public bool) error {
	// A page of any site can make a browser send a request to 127.0.0.1, with no
	// body or one of text. Such a request must not steer anything.
	if err := crossOrigin.Check(r); err != nil {
		return contract.NewProblem(http.StatusForbidden,
			"A page of another site has sent this request: the browser says so (Sec-Fetch-Site, Origin). Such requests are refused.").Because(err)
	}
	if public {
		return nil
	}
	if p := a.authenticate(r); p != nil {
		return p
	}
	// A form cannot send JSON, so the media type is asked for on every route, also
	// where a body would not be looked at.
	if r.Method != http.MethodGet && r.Method != http.MethodHead && (r.ContentLength != 0 || r.Header.Get("Content-Type") != "") {
		return checkMediaType(r.Header)
	}
	return nil
}

// turnAway refuses a request whose body was not read, and closes the connection:
// the client may take its time with the body, and would keep the connection.
func (a *API) turnAway(w http.ResponseWriter, r *http.Request, err error) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		// net/http would read up to 256 KB of the body before it closes. There is no
		// connection to do this to on Lambda.
		if err := http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			a.o.Log.DebugContext(r.Context(), "cannot stop reading a refused request", "error", err)
		}
	}
	Fail(w, r, err)
}

// authenticate checks the Bearer token, if one is asked for. Digests are
// compared because their length gives nothing away.
// https://www.rfc-editor.org/rfc/rfc6750
func (a *API) authenticate(r *http.Request) *contract.Problem {
	if a.o.Token == "" {
		return nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, got := sha256.Sum256([]byte(a.o.Token)), sha256.Sum256([]byte(token))
	if strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], got[:]) == 1 {
		return nil
	}
	p := contract.NewProblem(http.StatusUnauthorized, "Send the API token: Authorization: Bearer …")
	p.Header = http.Header{"Www-Authenticate": {`Bearer realm="fedpost"`}}
	return p
}
