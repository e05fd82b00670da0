package api

import (
	"net/http"
	"slices"
	"strings"
)

// addExact records the method of a pattern whose path has no wildcard. A handler whose pattern
// has no method checks it itself.
func (a *API) addExact(pattern string) {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok || strings.Contains(path, "{") {
		return
	}
	a.exact[path] = append(a.exact[path], method)
	if method == http.MethodGet {
		a.exact[path] = append(a.exact[path], http.MethodHead)
	}
	slices.Sort(a.exact[path])
}

// exactly reports whether the path of a request takes its method. ServeMux alone would use the
// methods of /v1/activities/{id} for /v1/activities/batch, too.
func (a *API) exactly(r *http.Request) bool {
	methods, ok := a.exact[r.URL.Path]
	return !ok || slices.Contains(methods, r.Method)
}

// allowed lists the methods of a request's path, empty if there is no such path. The methods
// of a path with a wildcard are taken from ServeMux's own answer.
func (a *API) allowed(h http.Handler, r *http.Request) string {
	if methods, ok := a.exact[r.URL.Path]; ok {
		return strings.Join(methods, ", ")
	}
	d := &discard{header: http.Header{}}
	h.ServeHTTP(d, r)
	if d.status != http.StatusMethodNotAllowed {
		return ""
	}
	return d.header.Get("Allow")
}

// discard is a ResponseWriter that keeps the status and the headers of an answer and drops
// the body.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
