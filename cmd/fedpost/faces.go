package main

import "net/http"

// faces serves the metrics beside the API. http.ServeMux would redirect paths that are
// not canonical, which the API answers itself.
func faces(api, metrics http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			metrics.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}
