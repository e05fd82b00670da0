package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/outbound"
)

// NodeInfo probes a host of the fediverse by the well-known address that nearly
// all of its software serves to anybody, cheaply.
// https://nodeinfo.diaspora.software/protocol
type NodeInfo struct {
	Client *outbound.Client
	// AllowHTTP tries plain http where https gets no answer: for trials.
	AllowHTTP bool
}

// Probe implements Prober. Any answer below 500 passes: the host is there, and
// a parked delivery will show whether its inbox is, too.
func (n NodeInfo) Probe(ctx context.Context, host string) outcome.Outcome {
	o := n.get(ctx, "https://"+host)
	if n.AllowHTTP && o.Status == 0 {
		if plain := n.get(ctx, "http://"+host); plain.Status != 0 {
			return plain
		}
	}
	return o
}

func (n NodeInfo) get(ctx context.Context, origin string) outcome.Outcome {
	r, err := outbound.NewRequest(ctx, http.MethodGet, origin+"/.well-known/nodeinfo", "")
	if err != nil {
		return outcome.Outcome{Class: outcome.Refused, Reason: outcome.BadRequest, Err: err.Error(), Try: outcome.Untried}
	}
	r.Header.Set("Accept", "application/json")
	a, err := n.Client.Do(ctx, r)
	switch {
	case errors.Is(err, outbound.ErrStopped):
		// The time for one probe is the host's to keep.
		return outcome.Outcome{Class: outcome.Retry, Reason: outcome.Timeout, Err: err.Error()}
	case err != nil:
		return outcome.Outcome{Class: outcome.Retry, Reason: outbound.ReasonOf(err), Err: err.Error()}
	case a.Status >= 500:
		return outcome.Outcome{Class: outcome.Retry, Status: a.Status, Err: strings.TrimSpace(fmt.Sprintf("answered %d %s", a.Status, http.StatusText(a.Status)))}
	}
	return outcome.Outcome{Class: outcome.Delivered, Status: a.Status}
}
