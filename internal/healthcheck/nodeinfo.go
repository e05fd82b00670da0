package healthcheck

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/outbound"
)

// NodeInfo probes a host by a well-known address that nearly all software of the fediverse
// serves to anybody.
//
// https://nodeinfo.diaspora.software/protocol
type NodeInfo struct {
	Client *outbound.Client
	// AllowHTTP tries plain http where https is not answered, for trials.
	AllowHTTP bool
}

// Probe implements Prober. Any answer below 500 passes, and 501, the answer of a server that knows
// only POST: a parked delivery will show whether its inbox works.
func (n NodeInfo) Probe(ctx context.Context, host string) outcome.Outcome {
	if !n.AllowHTTP && !outbound.Onion(host) {
		return n.get(ctx, "https://"+host)
	}
	half, cancel := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		half, cancel = context.WithTimeoutCause(ctx, time.Until(end)/2, outbound.ErrTimeout)
	}
	o := n.get(half, "https://"+host)
	cancel()
	if o.Status != 0 {
		return o
	}
	// A failed TLS handshake shows nothing about a server of plain http.
	if plain := n.get(ctx, "http://"+host); plain.Reason != outcome.ConnRefused {
		return plain
	}
	return o
}

func (n NodeInfo) get(ctx context.Context, origin string) outcome.Outcome {
	r, err := outbound.NewRequest(ctx, http.MethodGet, origin+"/.well-known/nodeinfo", "")
	if err != nil {
		return outbound.Failure(err)
	}
	r.Header.Set("Accept", "application/json")
	a, err := n.Client.Do(ctx, r)
	switch {
	case err != nil:
		return outbound.Failure(err)
	case a.Status >= 500 && a.Status != http.StatusNotImplemented:
		return outcome.Outcome{Class: outcome.Retry, Status: a.Status, Err: strings.TrimSpace(fmt.Sprintf("answered %d %s", a.Status, http.StatusText(a.Status)))}
	}
	return outcome.Outcome{Class: outcome.Delivered, Status: a.Status}
}
