package peers

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"fedpost/internal/protocol/sipher/crypto"

	"fedpost/internal/protocol/sipher/wire"
)

const (
	// MaxRegistration is the largest registration that is read, in bytes; a
	// real one has about 300.
	MaxRegistration = 4 << 10
	// MaxPeers is how many peers we list, the most recently seen first: what
	// other servers can read of an answer is limited too.
	MaxPeers = 200
	// MaxCallbacks is how many registrations are confirmed at once. Each makes
	// us send a request to an address that a stranger chose.
	MaxCallbacks = 8
)

// Limiter decides whether a caller may make another request.
type Limiter interface {
	// Allow returns 0, or how long the caller should wait.
	Allow(caller string) time.Duration
}

// Handler serves GET and POST /discover. Make it with NewHandler.
type Handler struct {
	identity  crypto.Public
	registry  Store
	blocks    BlockList
	http      Exchange
	prober    *Prober
	limiter   Limiter
	log       *slog.Logger
	now       func() time.Time
	callbacks chan struct{}
}

// HandlerConfig is what a Handler needs.
type HandlerConfig struct {
	Identity crypto.Public
	Registry Store
	Blocks   BlockList
	HTTP     Exchange
	// Prober is told of servers that register again.
	Prober *Prober
	// Limiter may be nil: no limit per caller.
	Limiter Limiter
	Log     *slog.Logger
	Now     func() time.Time
}

// NewHandler returns the handler of /discover.
func NewHandler(c HandlerConfig) *Handler {
	return &Handler{
		identity: c.Identity, registry: c.Registry, blocks: c.Blocks, http: c.HTTP, prober: c.Prober,
		limiter: c.Limiter, log: c.Log, now: c.Now, callbacks: make(chan struct{}, MaxCallbacks),
	}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.identity.Ready(); err != nil {
		// Anybody may ask, so it is no fault and no line of the ordinary log.
		h.log.DebugContext(r.Context(), "nothing to show at /discover", "error", err)
		problem(w, http.StatusNotFound, "this server takes no part in the Sipher network")
		return
	}
	if h.limiter != nil {
		if wait := h.limiter.Allow(caller(r)); wait > 0 {
			retryLater(w, http.StatusTooManyRequests, wait, "too many requests from this address")
			return
		}
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		h.get(w, r)
	case http.MethodPost:
		h.post(w, r)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		problem(w, http.StatusMethodNotAllowed, "GET asks for this server's keys, POST registers a server")
	}
}

// caller is the address a request came from. Headers are not looked at: whoever
// puts the handler behind a proxy sets RemoteAddr from what it trusts.
func caller(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if addr = addr.WithZone("").Unmap(); addr.Is6() {
		// Whoever has one address of IPv6 has all of its /64.
		return netip.PrefixFrom(addr, 64).Masked().String()
	}
	return addr.String()
}

func (h *Handler) get(w http.ResponseWriter, r *http.Request) {
	servers, err := h.registry.Servers(r.Context())
	if err != nil {
		h.log.ErrorContext(r.Context(), "read sipher peers", "error", err)
		problem(w, http.StatusInternalServerError, "the registry cannot be read at the moment")
		return
	}
	reply(w, http.StatusOK, wire.Discovery{Card: cardOf(h.identity), Peers: h.peers(servers)})
}

// peers lists the healthy servers but us, newest first.
func (h *Handler) peers(servers []Server) []wire.Peer {
	slices.SortFunc(servers, NewestFirst)
	peers := []wire.Peer{} // never null
	for _, s := range servers {
		if s.IsHealthy && s.URL != h.identity.Origin && len(peers) < MaxPeers {
			peers = append(peers, wire.Peer{URL: s.URL, IsHealthy: true})
		}
	}
	return peers
}
