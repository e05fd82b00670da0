package apigateway

import (
	"context"
	"net/http"
)

type headersKey struct{}

func withHeaders(ctx context.Context, h map[string]string) context.Context {
	return context.WithValue(ctx, headersKey{}, h)
}

// wholeHeaders restores the headers of a format 2.0 event, which the library splits at commas.
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
