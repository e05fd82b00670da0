package main

import (
	"net/http"

	"fedpost/internal/api/page"
)

// dispatch sends requests to the page, the metrics or the API. http.ServeMux would redirect paths
// that are not canonical, which the API answers itself.
func dispatch(api, metrics http.Handler, p *page.Page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/metrics" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			metrics.ServeHTTP(w, r)
		case p.Serves(r):
			p.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
}
