package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/wire"
)

const (
	// RelayTimeout is for the answer of a proxy, which makes a request of its own.
	RelayTimeout = 12 * time.Second
	// SweepTimeout is how long the servers have to answer an emergency sweep.
	SweepTimeout = 2 * time.Second
	// SweepWidth is how many servers one sweep asks: servers we have sent to, then strangers, in
	// both groups the last seen first.
	SweepWidth = 64
	// SweepEvery is the least time between two sweeps of a process. Deliveries that fail in
	// between find no proxy; those that fail during a sweep share it.
	SweepEvery = 30 * time.Second
)

// Relay finds proxies and asks them.
type Relay struct {
	*Prober
	Identity crypto.Identity
	Blocks   BlockList
	Entropy  io.Reader

	sweeps flights[string]
	swept  time.Time // when the last sweep began; only sweeps use it
}

// Delivery is the direct delivery that failed.
type Delivery struct {
	Target    Server
	TargetURL string
	Body      string
	// Reason is why the direct delivery failed.
	Reason Reason
}

// Deliver asks a proxy to pass d on, and returns the proxy's 2xx answer and URL. The answer proves
// nothing unless the target signed it.
func (r *Relay) Deliver(ctx context.Context, d Delivery) (outbound.Answer, string, error) {
	proxy, err := r.proxy(ctx, d.Target.URL)
	if err != nil {
		return outbound.Answer{}, "", err
	}
	a, err := r.ask(ctx, proxy, d)
	if err != nil {
		return outbound.Answer{}, proxy, fmt.Errorf("proxy %s: %w", proxy, err)
	}
	return a, proxy, nil
}

func (r *Relay) ask(ctx context.Context, proxy string, d Delivery) (outbound.Answer, error) {
	body, err := r.request(d)
	if err != nil {
		return outbound.Answer{}, err
	}
	a, err := r.HTTP.Post(ctx, proxy+"/proxy", wire.ProxyHeaders(r.Identity.Origin), body, RelayTimeout)
	if err != nil {
		if f := FaultOf(err); f.Host {
			r.mark(ctx, proxy, f.Reason)
		}
		return outbound.Answer{}, err
	}
	if a.Status == http.StatusBadGateway && !r.Policies.For(d.Reason).DirectHealthCheckable {
		// Only if our own reason forbids direct checks: else a proxy could end the health checks that
		// our own error started.
		r.mark(ctx, d.Target.URL, InvalidResponse)
	}
	if !a.OK() {
		return outbound.Answer{}, fmt.Errorf("proxy did not deliver: %w", StatusError(proxy, a))
	}
	return a, nil
}

// request seals the whole direct request to the target.
func (r *Relay) request(d Delivery) (string, error) {
	recipient, err := crypto.DecodeSize(d.Target.EncryptionKey, crypto.KeySize)
	if err != nil {
		return "", fmt.Errorf("encryption key of %s: %w", d.Target.URL, err)
	}
	inner, err := wire.ProxiedDelivery(r.Identity.Origin, d.TargetURL, d.Body)
	if err != nil {
		return "", err
	}
	sealed, err := crypto.Seal(r.Entropy, recipient, inner)
	if err != nil {
		return "", err
	}
	return wire.ProxyBody(d.Target.URL, cardOf(r.Identity.Public), sealed, r.Identity.Sign(inner))
}

// mark marks a server unhealthy. A failure is only logged: the delivery can go on.
func (r *Relay) mark(ctx context.Context, url string, reason Reason) {
	if err := r.MarkUnhealthy(ctx, url, reason); err != nil {
		r.Log.ErrorContext(ctx, "cannot record that a sipher server is unhealthy", "server", url, "error", err)
	}
}

// proxy returns the server to ask: the last seen of the healthy servers we have sent to, else of the
// healthy strangers, else the first that answers a sweep. Without this order a stranger, who can
// always be the last seen, could become the proxy of every delivery.
func (r *Relay) proxy(ctx context.Context, target string) (string, error) {
	all, err := r.Registry.Servers(ctx)
	if err != nil {
		return "", fmt.Errorf("look for a proxy: %w", err)
	}
	blocks, err := r.Blocks.Blocks(ctx)
	if err != nil {
		return "", fmt.Errorf("look for a proxy: %w", err)
	}
	all = slices.DeleteFunc(all, func(s Server) bool {
		return s.URL == target || r.Identity.Is(s.URL) ||
			slices.ContainsFunc(blocks, func(b Block) bool { return b.ServerURL == s.URL })
	})
	slices.SortFunc(all, func(a, b Server) int {
		if a.Stranger != b.Stranger {
			return cmp.Compare(rank(a), rank(b))
		}
		return NewestFirst(a, b)
	})
	var down []string
	for _, s := range all {
		if !s.IsHealthy && (len(down) == SweepWidth || !r.Policies.For(s.Reason).DirectHealthCheckable) {
			continue
		}
		// The list above lacks blocks of hosts and domains.
		block, err := r.Blocks.Blocked(ctx, s.URL)
		switch {
		case err != nil:
			return "", fmt.Errorf("look for a proxy: %w", err)
		case block != nil:
		case s.IsHealthy:
			return s.URL, nil
		default:
			down = append(down, s.URL)
		}
	}
	if url := r.share(ctx, down); url != "" && url != target {
		return url, nil
	}
	r.Log.ErrorContext(ctx, "no sipher server can be reached as a proxy", "target", target, "swept", len(down))
	return "", errors.New("no proxy is left")
}

func rank(s Server) int {
	if s.Stranger {
		return 1
	}
	return 0
}

// share starts a sweep or waits for the one under way. "": the last began less than SweepEvery ago.
func (r *Relay) share(ctx context.Context, servers []string) string {
	if len(servers) == 0 {
		return ""
	}
	found, _ := r.sweeps.do(ctx, "", 2*SweepTimeout, func(ctx context.Context) (string, error) {
		now := r.Now()
		if !r.swept.IsZero() && now.Sub(r.swept) < SweepEvery {
			return "", nil
		}
		r.swept = now
		return r.sweep(ctx, servers), nil
	})
	return found
}

// sweep asks unhealthy servers, all at once, and returns the first that answered, or "". It marks
// those healthy that answered. It waits for all, so that no request outlives the attempt.
func (r *Relay) sweep(ctx context.Context, servers []string) string {
	var (
		mu    sync.Mutex
		first string
		group sync.WaitGroup
	)
	for _, url := range servers {
		group.Go(func() {
			if ctx.Err() != nil || r.Ask(ctx, url, SweepTimeout) != nil {
				return
			}
			mu.Lock()
			first = cmp.Or(first, url)
			mu.Unlock()
			if err := r.MarkHealthy(ctx, url); err != nil {
				r.Log.ErrorContext(ctx, "cannot record that a sipher server is healthy", "server", url, "error", err)
			}
		})
	}
	group.Wait()
	return first
}
