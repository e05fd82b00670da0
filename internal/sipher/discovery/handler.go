package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"fedpost/internal/outcome"
	"fedpost/internal/sipher/exchange"
	"fedpost/internal/sipher/identity"
	"fedpost/internal/sipher/registry"
	"fedpost/internal/sipher/wire"
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
	identity  identity.Identity
	registry  registry.Store
	blocks    registry.BlockList
	http      exchange.Client
	limiter   Limiter
	log       *slog.Logger
	now       func() time.Time
	callbacks chan struct{}
}

// HandlerConfig is what a Handler needs.
type HandlerConfig struct {
	Identity identity.Identity
	Registry registry.Store
	Blocks   registry.BlockList
	HTTP     exchange.Client
	// Limiter may be nil: no limit per caller.
	Limiter Limiter
	Log     *slog.Logger
	Now     func() time.Time
}

// NewHandler returns the handler of /discover.
func NewHandler(c HandlerConfig) *Handler {
	return &Handler{
		identity: c.Identity, registry: c.Registry, blocks: c.Blocks, http: c.HTTP,
		limiter: c.Limiter, log: c.Log, now: c.Now, callbacks: make(chan struct{}, MaxCallbacks),
	}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.identity.Ready(); err != nil {
		h.log.ErrorContext(r.Context(), "cannot answer /discover", "error", err)
		problem(w, http.StatusServiceUnavailable, "this server takes no part in the Sipher network")
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
func (h *Handler) peers(servers []registry.Server) []wire.Peer {
	slices.SortFunc(servers, registry.NewestFirst)
	peers := []wire.Peer{} // never null
	for _, s := range servers {
		if s.IsHealthy && s.URL != h.identity.Origin && len(peers) < MaxPeers {
			peers = append(peers, wire.Peer{URL: s.URL, IsHealthy: true})
		}
	}
	return peers
}

func (h *Handler) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxRegistration))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			problem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a registration has at most %d bytes", MaxRegistration))
			return
		}
		problem(w, http.StatusBadRequest, "the body could not be read")
		return
	}
	claim, err := wire.ParseRegistration(body)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	if err := registry.CheckOrigin(claim.URL); err != nil {
		problem(w, http.StatusBadRequest, "url: "+err.Error())
		return
	}
	if claim.URL == h.identity.Origin {
		problem(w, http.StatusBadRequest, "url: that is this server itself")
		return
	}
	h.register(w, r, claim)
}

func (h *Handler) register(w http.ResponseWriter, r *http.Request, claim wire.Card) {
	ctx := r.Context()
	block, err := h.blocks.Blocked(ctx, claim.URL)
	if err != nil {
		h.log.ErrorContext(ctx, "read the sipher block list", "error", err)
		problem(w, http.StatusInternalServerError, "the block list cannot be read at the moment")
		return
	}
	if block != nil {
		problem(w, http.StatusForbidden, "this server does not accept registrations of "+claim.URL)
		return
	}
	select {
	case h.callbacks <- struct{}{}:
		defer func() { <-h.callbacks }()
	default:
		retryLater(w, http.StatusServiceUnavailable, Timeout, "too many registrations at once")
		return
	}
	if status, err := h.confirm(r, claim); err != nil {
		h.log.InfoContext(ctx, "sipher registration refused", "server", claim.URL, "error", err)
		problem(w, status, err.Error())
		return
	}
	_, err = registry.Admit(ctx, h.registry, registry.Shown{
		URL: claim.URL, PublicKey: claim.PublicKey, EncryptionKey: claim.EncryptionKey, Via: registry.Registered,
	}, h.now())
	switch {
	case errors.Is(err, registry.ErrKeyChanged):
		h.log.WarnContext(ctx, "sipher server presents a new key and is refused", "server", claim.URL, "error", err)
		problem(w, http.StatusBadRequest, claim.URL+" is registered with another key; its operator and ours have to talk")
	case err != nil:
		h.log.ErrorContext(ctx, "register sipher server", "server", claim.URL, "error", err)
		problem(w, http.StatusInternalServerError, "the registration could not be stored")
	default:
		reply(w, http.StatusOK, wire.Registered{Message: "Server registered successfully", Echo: cardOf(h.identity)})
	}
}

// confirm calls the server back, because anybody can claim to be anybody.
func (h *Handler) confirm(r *http.Request, claim wire.Card) (status int, err error) {
	card, err := fetch(r.Context(), h.http, claim.URL)
	var (
		fault    *exchange.Fault
		answered *statusError
	)
	switch {
	case errors.As(err, &fault) && fault.Class == outcome.BlockedAddr, errors.As(err, &fault) && fault.Class == outcome.BadRequest:
		// What the guard found out about our network is not told.
		return http.StatusBadRequest, fmt.Errorf("%s is not an address that may be registered", claim.URL)
	case fault != nil:
		return http.StatusBadGateway, fmt.Errorf("%s/discover cannot be reached: %s", claim.URL, fault.Reason)
	case errors.As(err, &answered):
		return http.StatusBadGateway, fmt.Errorf("%s/discover does not answer with 2xx", claim.URL)
	case err != nil:
		return http.StatusBadRequest, fmt.Errorf("%s/discover: %w", claim.URL, err)
	case !card.SameKeys(claim):
		return http.StatusBadRequest, fmt.Errorf("%s/discover shows other keys than the registration", claim.URL)
	}
	return 0, nil
}

func retryLater(w http.ResponseWriter, status int, wait time.Duration, detail string) {
	seconds := int((wait + time.Second - 1) / time.Second)
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	problem(w, status, detail)
}

// problem answers with an RFC 9457 document that has the protocol's own
// "error" beside the standard members, so that peers and our own API's clients
// both find what they look for.
func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	write(w, status, map[string]any{
		"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail, "error": detail,
	})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	write(w, status, v)
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	// The status is out: a failed write means that the caller has gone.
	_ = enc.Encode(v)
}
