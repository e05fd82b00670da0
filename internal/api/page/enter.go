package page

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"

	"fedpost/client"
	"fedpost/internal/api/inside"
)

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
		if p, ok := problemOf(err); ok && (p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden) {
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
