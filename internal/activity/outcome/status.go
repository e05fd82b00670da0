package outcome

import (
	"net/http"
	"time"
)

// OfStatus is ActivityPub's table: what an HTTP status from an inbox means.
// shared says that the inbox is a server's shared one; retryAfter is the header
// as it came. The time is the earliest next try, zero if the host named none.
//
// A 401 or 403 is judged as it is after both signature forms were tried. Sipher
// has a table of its own.
//
//	2xx                          Delivered
//	301, 308                     Refused: the inbox has moved, the caller has to learn it
//	other 3xx                    Retry: login walls and maintenance pages pass
//	400                          Doubtful
//	401                          Unverified
//	408, 425                     Retry
//	410                          Gone from a shared inbox, else Refused
//	429                          Throttled, DefaultPause if the host names no time
//	other 4xx                    Refused
//	503                          Throttled if the host names a time, else Retry
//	501                          Refused: it will not learn the method meanwhile
//	other 5xx, and no status     Retry
func OfStatus(status int, shared bool, retryAfter string, now time.Time) (Class, time.Time) {
	switch {
	case status >= 200 && status < 300:
		return Delivered, time.Time{}
	case status == http.StatusMovedPermanently, status == http.StatusPermanentRedirect:
		return Refused, time.Time{}
	case status == http.StatusBadRequest:
		return Doubtful, time.Time{}
	case status == http.StatusUnauthorized:
		return Unverified, time.Time{}
	case status == http.StatusNotImplemented:
		return Refused, time.Time{}
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		return Retry, time.Time{}
	case status == http.StatusGone && shared:
		return Gone, time.Time{}
	case status == http.StatusTooManyRequests:
		if at, ok := RetryAfter(retryAfter, now); ok {
			return Throttled, at
		}
		return Throttled, now.Add(DefaultPause)
	case status == http.StatusServiceUnavailable:
		if at, ok := RetryAfter(retryAfter, now); ok {
			return Throttled, at
		}
		return Retry, time.Time{}
	case status >= 400 && status < 500:
		return Refused, time.Time{}
	}
	return Retry, time.Time{}
}
