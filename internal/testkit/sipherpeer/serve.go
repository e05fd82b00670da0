package sipherpeer

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
)

// Serve answers a client's request with a handler. If the handler ends the connection,
// the client gets a connection reset. If the client has cancelled the request, it gets no
// answer.
func Serve(h http.Handler, r *http.Request) (res *http.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler {
				panic(p)
			}
			res, err = nil, r.Context().Err()
			if err == nil {
				err = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
			}
		}
	}()
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	in.Host = r.URL.Host
	in.RemoteAddr = "192.0.2.1:1234"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, in)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	res = w.Result()
	res.Request = r
	return res, nil
}
