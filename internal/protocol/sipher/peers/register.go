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
