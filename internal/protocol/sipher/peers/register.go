package peers

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"fedpost/internal/activity/outcome"

	"fedpost/internal/protocol/sipher/wire"
)

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
	if err := CheckOrigin(claim.URL); err != nil {
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
		retryLater(w, http.StatusServiceUnavailable, DiscoveryTimeout, "too many registrations at once")
		return
	}
	if status, err := h.confirm(r, claim); err != nil {
		h.log.InfoContext(ctx, "sipher registration refused", "server", claim.URL, "error", err)
		problem(w, status, err.Error())
		return
	}
	server, err := Admit(ctx, h.registry, Shown{
		URL: claim.URL, PublicKey: claim.PublicKey, EncryptionKey: claim.EncryptionKey, Via: Registered,
	}, h.now())
	switch {
	case errors.Is(err, ErrKeyChanged):
		h.log.WarnContext(ctx, "sipher server presents a new key and is refused", "server", claim.URL, "error", err)
		problem(w, http.StatusBadRequest, claim.URL+" is registered with another key; its operator and ours have to talk")
	case err != nil:
		h.log.ErrorContext(ctx, "register sipher server", "server", claim.URL, "error", err)
		problem(w, http.StatusInternalServerError, "the registration could not be stored")
	default:
		if err := h.prober.Registered(ctx, server); err != nil {
			h.log.ErrorContext(ctx, "cannot check a sipher server that registered again", "server", claim.URL, "error", err)
		}
		reply(w, http.StatusOK, wire.Registered{Message: "Server registered successfully", Echo: cardOf(h.identity)})
	}
}

// confirm calls the server back, because anybody can claim to be anybody.
func (h *Handler) confirm(r *http.Request, claim wire.Card) (status int, err error) {
	card, err := fetch(r.Context(), h.http, claim.URL)
	var (
		fault    *Fault
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
