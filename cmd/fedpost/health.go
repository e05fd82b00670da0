package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"fedpost/internal/api/contract"
)

// health asks GET /healthz. An image without a shell or curl is checked with it.
type health struct{ remote }

// Run fails if nobody answers, or the answer is that fedpost cannot work.
func (h health) Run(ctx context.Context, out io.Writer) error {
	return call(ctx, h.remote, out, http.MethodGet, "/healthz", nil, func(out io.Writer, a contract.Health) error {
		_, err := fmt.Fprintln(out, a.Status)
		return err
	})
}
