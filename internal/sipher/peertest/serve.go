package peertest

import (
	"net/http"
	"net/http/httptest"
)

// serve answers a client's request by a handler.
func serve(h http.Handler, r *http.Request) *http.Response {
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	in.Host = r.URL.Host
	in.RemoteAddr = "192.0.2.1:1234"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, in)
	res := w.Result()
	res.Request = r
	return res
}
