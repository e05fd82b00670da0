package apigateway

import (
	"context"
	"net/http"
)

type headersKey struct{}

func withHeaders(ctx context.Context, h map[string]string) context.Context {
	return context.WithValue(ctx, headersKey{}, h)
}

// wholeHeaders restores the headers of a format 2.0 request as API Gateway passed
// them on. API Gateway joins the values of a header that was sent several times
// with commas, which means the same (RFC 9110, 5.3). The library splits every
// header at its commas, including commas that the sender wrote.
func wholeHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sent, ok := r.Context().Value(headersKey{}).(map[string]string); ok {
			for name, value := range sent {
				r.Header.Set(name, value)
			}
		}
		next.ServeHTTP(w, r)
	})
}
