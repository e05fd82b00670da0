package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/wire"
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
	// The status is sent: a failed write means that the caller has gone.
	_, _ = w.Write(document)
}

func (h *Handler) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxRegistration))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
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
	if err := CheckOrigin(claim.URL); err != nil {
		problem(w, http.StatusBadRequest, "url: "+err.Error())
		return
	}
	if h.Identity.Is(claim.URL) {
		problem(w, http.StatusBadRequest, "url: that is this server itself")
		return
	}
	h.register(w, r, claim)
}

func (h *Handler) register(w http.ResponseWriter, r *http.Request, claim wire.Card) {
	ctx := r.Context()
	block, err := h.Blocks.Blocked(ctx, claim.URL)
	if err != nil {
		h.Log.ErrorContext(ctx, "cannot read the block list of sipher servers", "error", err)
		problem(w, http.StatusInternalServerError, "the block list cannot be read at the moment")
		return
	}
	if block != nil {
		problem(w, http.StatusForbidden, "this server does not accept registrations of "+claim.URL)
		return
	}
	card, err := h.callbacks.Confirm(ctx, caller(r), claim)
	if busy := (*errBusy)(nil); errors.As(err, &busy) {
		status := http.StatusServiceUnavailable
		if busy.mine {
			status = http.StatusTooManyRequests
		}
		retryLater(w, status, busy.wait, busy.why)
		return
	}
	if status, detail := refusal(claim, card, err); status != 0 {
		h.Log.InfoContext(ctx, "sipher registration refused", "server", claim.URL, "status", status, "error", err)
		problem(w, status, detail)
		return
	}
	server, err := h.directory.Admit(ctx, claim)
	switch {
	case errors.Is(err, ErrKeyChanged):
		h.Log.WarnContext(ctx, "sipher server presents a new key and is refused", "server", claim.URL, "error", err)
		problem(w, http.StatusBadRequest, claim.URL+" is registered with another key; its operator has to ask ours to pin the new one")
	case err != nil:
		h.Log.ErrorContext(ctx, "cannot register a sipher server", "server", claim.URL, "error", err)
		problem(w, http.StatusInternalServerError, "the registration could not be stored")
	default:
		if err := h.Registered(ctx, server); err != nil {
			h.Log.ErrorContext(ctx, "cannot check a sipher server that registered again", "server", claim.URL, "error", err)
		}
		reply(w, http.StatusOK, wire.Registered{Message: "Server registered successfully", Echo: cardOf(h.Identity)})
	}
}

// refusal returns the answer to a registration whose server does not confirm the claim; status 0: it
// confirms. The answer does not say how a server failed, or strangers could scan ports through us.
func refusal(claim, card wire.Card, err error) (status int, detail string) {
	var (
		fault    *Fault
		answered *statusError
	)
	switch {
	case errors.As(err, &fault) && (fault.Class == outcome.BlockedAddr || fault.Class == outcome.BadRequest):
		return http.StatusBadRequest, claim.URL + " is not an address that may be registered"
	case fault != nil, errors.As(err, &answered):
		return http.StatusBadGateway, claim.URL + "/discover does not answer"
	case err != nil:
		return http.StatusBadRequest, claim.URL + "/discover does not show the keys of a Sipher server"
	case !card.SameKeys(claim):
		return http.StatusBadRequest, claim.URL + "/discover shows other keys than the registration"
	}
	return 0, ""
}

func retryLater(w http.ResponseWriter, status int, wait time.Duration, detail string) {
	seconds := int((wait + time.Second - 1) / time.Second)
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	problem(w, status, detail)
}

// problem answers with an RFC 9457 document that also has the protocol's own member "error".
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
	// The status is sent: a failed write means that the caller has gone.
	_ = enc.Encode(v)
}
