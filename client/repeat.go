package client

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

// The pause before a call is repeated doubles from firstPause to longestPause, and is drawn from
// its second half, so that callers that failed together do not retry together.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 10 * time.Second
)

// longestRetryAfter bounds Retry-After: no answer may stop a caller for a year.
const longestRetryAfter = 5 * time.Minute

// retryAfter is how long to wait by a header Retry-After, in seconds or as a date; 0: it says
// nothing.
func retryAfter(header string) time.Duration {
	if at, err := http.ParseTime(header); err == nil {
		return min(max(time.Until(at), 0), longestRetryAfter)
	}
	seconds, err := strconv.Atoi(header)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // seconds is the nearest int
	}
	if err != nil {
		return 0
	}
	return upToLongest(seconds)
}

// upToLongest is a wait of that many seconds, at most longestRetryAfter.
func upToLongest(seconds int) time.Duration {
	return time.Duration(min(max(seconds, 0), int(longestRetryAfter/time.Second))) * time.Second
}

// pauseAfter is how long to wait before a call that ended with err is repeated; negative: it is
// not. A call that is safe to repeat is repeated unless the answer is final; any other only if
// fedpost has not begun with it.
func (c *Client) pauseAfter(err error, pause time.Duration, harmless bool) time.Duration {
	pause = pause/2 + rand.N(pause/2)
	var p *Problem
	switch {
	case errors.As(err, &p) && p.Status == http.StatusTooManyRequests,
		errors.As(err, &p) && harmless && (p.Status >= 500 || inProgress(p)):
		return max(p.RetryAfter, pause)
	case errors.Is(err, ErrNoAnswer) && harmless && !c.hopeless(err):
		return pause
	}
	return -1
}

// inProgress: another request has the deduplication key, and its outcome is not known yet.
func inProgress(p *Problem) bool { return p.Status == http.StatusConflict && p.RetryAfter > 0 }

// hopeless errors do not pass soon: the caller has given up, the certificate is not the server's,
// nothing speaks TLS there, or the name does not exist. The name of a container may be missing
// during a restart.
func (c *Client) hopeless(err error) bool {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.Is(err, context.Canceled) || errors.As(err, &certificate) || errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &record) ||
		errors.As(err, &name) && name.IsNotFound && !c.answered.Load()
}

// sleep waits for d, or until ctx ends; then it returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}
