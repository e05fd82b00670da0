package peers

import (
	"net"
	"net/http"

	"fedpost/internal/activity"
	"fedpost/internal/protocol/sipher/crypto"
)

// MaxRegistration is the largest registration that is read, in bytes; a real one has about 300.
const MaxRegistration = 4 << 10

// Handler serves GET and POST /discover. Make it with NewHandler.
type Handler struct {
	HandlerConfig
	directory *directory
	callbacks *callbacks
}

// HandlerConfig is what a Handler needs. It shares its Prober's registry and client.
type HandlerConfig struct {
	*Prober
	Identity crypto.Public
	Blocks   BlockList
	// Limiter is per caller; nil: no limit.
	Limiter *RateLimit
}

func NewHandler(c HandlerConfig) *Handler {
	return &Handler{c, newDirectory(c.Identity, c.Registry, c.Now), newCallbacks(c.HTTP, c.Now)}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		problem(w, http.StatusMethodNotAllowed, "GET asks for this server's keys, POST registers a server")
		return
	}
	if err := h.Identity.Ready(); err != nil {
		// Anybody may ask, so the ordinary log has no line of it.
		h.Log.DebugContext(r.Context(), "nothing to show at /discover", "error", err)
		problem(w, http.StatusNotFound, "this server takes no part in the Sipher network")
		return
	}
	if h.Limiter != nil {
		if wait := h.Limiter.Allow(caller(r)); wait > 0 {
			retryLater(w, http.StatusTooManyRequests, wait, "too many requests from this address")
			return
		}
	}
	if r.Method == http.MethodPost {
		h.post(w, r)
		return
	}
	h.get(w, r)
}

// caller is the address a request came from. Headers are ignored: whoever runs a proxy in front sets
// RemoteAddr from what it trusts.
func caller(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return activity.NetworkOf(host)
}

func (h *Handler) get(w http.ResponseWriter, r *http.Request) {
	document, err := h.directory.Answer(r.Context())
	if err != nil {
		h.Log.ErrorContext(r.Context(), "cannot read the list of sipher servers", "error", err)
		problem(w, http.StatusInternalServerError, "the registry cannot be read at the moment")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	// The status is out: a failed write means that the caller has gone.
	_, _ = w.Write(document)
}
