package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"fedpost/internal/api/problem"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
)

// RetryAfter is the Retry-After of a 503 after a failure of the table or a queue.
const RetryAfter = 5 * time.Second

func enqueueProblem(err error, keyed bool) error {
	if invalidErr, ok := errors.AsType[*enqueue.InvalidError](err); ok {
		all, tooLarge := fields(invalidErr.Faults)
		if tooLarge {
			return invalid(http.StatusRequestEntityTooLarge, all)
		}
		return invalid(http.StatusBadRequest, all)
	}
	if held, ok := errors.AsType[*dedup.HeldError](err); ok {
		p := problem.Typed(http.StatusConflict, "in-progress", "In progress",
			"Another request with this deduplication key is in progress, or ended without an answer. Try again after the time in Retry-After.")
		p.ID = string(held.ID)
		return p.After(held.RetryAfter)
	}
	if mismatch, ok := errors.AsType[*dedup.MismatchError](err); ok {
		p := problem.Typed(http.StatusUnprocessableEntity, "key-reused", "Deduplication key reused",
			"This deduplication key was used for a different request. Use a new key for a new request.")
		p.ID = string(mismatch.ID)
		return p
	}
	if errors.Is(err, dedup.ErrUnavailable) {
		return problem.Typed(http.StatusServiceUnavailable, "deduplication-unavailable", "Deduplication unavailable",
			"The deduplication key cannot be checked at the moment, and the setting DEDUPLICATION_FALLBACK=closed refuses such requests. Nothing was queued. Try again.").
			Because(err).After(RetryAfter)
	}
	var send *enqueue.SendError
	if errors.As(err, &send) && send.MaybeSent {
		advice := "Try again with the same deduplication key: it will not be queued twice."
		if !keyed {
			advice = "Without a deduplication key, trying again may deliver it twice."
		}
		return problem.Typed(http.StatusServiceUnavailable, "unknown-outcome", "Outcome unknown",
			fmt.Sprintf("The activity may or may not have been queued. %s", advice)).Because(err).After(RetryAfter)
	}
	if send != nil {
		return problem.Typed(http.StatusServiceUnavailable, "not-queued", "Not queued",
			"The activity was not queued. Try again.").Because(err).After(RetryAfter)
	}
	return err
}
