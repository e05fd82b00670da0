// Package caller makes clients of the API for tests. They repeat nothing, so that a test sees
// each answer.
package caller

import (
	"net/http"
	"testing"

	"fedpost/client"
)

// Of returns a client of the fedpost at an address.
func Of(t testing.TB, address string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(address, append([]client.Option{client.Patience(0)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Through carries the requests of a client.
func Through(carrier http.RoundTripper) client.Option {
	return client.HTTPClient(&http.Client{Transport: carrier})
}
