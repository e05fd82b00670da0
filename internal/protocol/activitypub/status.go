package activitypub

import (
	"net/http"
	"time"

	"fedpost/internal/activity/outcome"
)

// OfStatus returns the class of an HTTP status from an inbox, and the earliest next try; zero: the host
// named none. h is the answer's header; shared: it is a shared inbox. Before a 401 or 403 is judged, all
// signature forms must have been tried.
//
//	2xx                          Delivered
//	301, 308                     Refused: the inbox has moved, so the caller has to act
//	other 3xx                    Retry: login walls and maintenance pages end some time
//	400                          Doubtful; Attempt makes it Unverified if it names the signature
//	401                          Unverified
//	408, 421, 425                Retry
//	410                          Gone from a shared inbox, else Refused
//	429                          Throttled until Retry-After, else X-RateLimit-Reset,
//	                             else for DefaultPause
//	other 4xx                    Refused
//	503                          Throttled until Retry-After, without it Retry
//	501                          Refused: a retry does not make the server know POST
//	other 5xx, and no status     Retry
func OfStatus(status int, shared bool, h http.Header, now time.Time) (outcome.Class, time.Time) {
	switch {
	case status >= 200 && status < 300:
		return outcome.Delivered, time.Time{}
	case status == http.StatusMovedPermanently, status == http.StatusPermanentRedirect, status == http.StatusNotImplemented:
		return outcome.Refused, time.Time{}
	case status == http.StatusBadRequest:
		return outcome.Doubtful, time.Time{}
	case status == http.StatusUnauthorized:
		return outcome.Unverified, time.Time{}
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusMisdirectedRequest:
		return outcome.Retry, time.Time{}
	case status == http.StatusGone && shared:
		return outcome.Gone, time.Time{}
	case status == http.StatusTooManyRequests:
		if at, ok := outcome.RetryAfter(h.Get("Retry-After"), now); ok {
			return outcome.Throttled, at
		}
		if at, ok := outcome.RateLimitReset(h.Get("X-RateLimit-Reset"), now); ok && h.Get("Retry-After") == "" {
			return outcome.Throttled, at
		}
		return outcome.Throttled, now.Add(outcome.DefaultPause)
	case status == http.StatusServiceUnavailable:
		// X-RateLimit-Reset does not count: servers send it with every answer.
		if at, ok := outcome.RetryAfter(h.Get("Retry-After"), now); ok {
			return outcome.Throttled, at
		}
		return outcome.Retry, time.Time{}
	case status >= 400 && status < 500:
		return outcome.Refused, time.Time{}
	}
	return outcome.Retry, time.Time{}
}
