package apigateway

import (
	"context"
	"net/http"
)

type headersKey struct{}

func withHeaders(ctx context.Context, h map[string]string) context.Context {
	return context.WithValue(ctx, headersKey{}, h)
}

// wholeHeaders gives a request of format 2.0 its headers back as API Gateway
// passed them on. Where one was sent several times, its values are already
// joined with commas, which means the same (RFC 9110, 5.3); the library splits
// all of them, whether they were joined or have a comma of their own.
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
