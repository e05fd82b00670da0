package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"

	"fedpost/internal/activity/outcome"
)

// InvalidAnswerError says that the answer is not HTTP, or that its header is longer than 64 KiB.
type InvalidAnswerError struct{ Err error }

func (e *InvalidAnswerError) Error() string { return "invalid answer: " + e.Err.Error() }
func (e *InvalidAnswerError) Unwrap() error { return e.Err }

// trace records how far a request got, which net/http's errors do not say.
type trace struct{ resolving, sent atomic.Bool }

func (t *trace) attach(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) { t.resolving.Store(true) },
		// If a look-up is given up, DNSDone runs with an error, and resolving stays true.
		DNSDone:      func(i httptrace.DNSDoneInfo) { t.resolving.Store(i.Err != nil) },
		WroteHeaders: func() { t.sent.Store(true) },
	})
}

// explain turns a transport's error into one that ReasonOf understands.
func (c *Client) explain(outer, inner context.Context, t *trace, err error) error {
	if outer.Err() != nil && !errors.Is(context.Cause(outer), ErrTimeout) {
		return fmt.Errorf("%w: %w", ErrStopped, context.Cause(outer))
	}
	if errors.Is(err, ErrStopped) {
		return err
	}
	if full(err) {
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	if errors.Is(context.Cause(inner), ErrTimeout) {
		if t.resolving.Load() {
			return &net.DNSError{Err: "no answer from the resolver", IsTimeout: true}
		}
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrTimeout) {
			return ErrTimeout // err says no more than that
		}
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	if t.sent.Load() && ReasonOf(err) == outcome.OtherTrouble && !is[*net.OpError](err) {
		// net/http has no type for most of what can be wrong with an answer.
		return &InvalidAnswerError{Err: err}
	}
	return err
}

// full reports whether this machine is out of file descriptors, ports or memory. The resolver's
// error has no type for this, so its text is compared. EADDRNOTAVAIL for an IPv6 address says that
// this machine has no IPv6, because there are more than enough ports for each host.
func full(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && errors.Is(op, syscall.EADDRNOTAVAIL) {
		to, ok := op.Addr.(*net.TCPAddr)
		return !ok || to.IP.To4() != nil
	}
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		dns, ok := errors.AsType[*net.DNSError](err)
		if errors.Is(err, errno) || ok && strings.HasSuffix(dns.Err, errno.Error()) {
			return true
		}
	}
	return false
}

// streamError stands for net/http's unexported error for an HTTP/2 stream that was reset.
// errors.AsType fills any struct that has the same fields from that error.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return fmt.Sprintf("stream reset with code %d", e.Code) }

// Failure is the outcome of a request for which Do or NewRequest returned err.
func Failure(err error) outcome.Outcome {
	o := outcome.Outcome{Class: outcome.Retry, Err: outcome.Text(err.Error())}
	if errors.Is(err, ErrStopped) {
		o.Try = outcome.Untried
		return o
	}
	if o.Reason = ReasonOf(err); o.Reason == outcome.BlockedAddr || o.Reason == outcome.BadRequest {
		o.Class, o.Try = outcome.Refused, outcome.Untried
	}
	return o
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// ReasonOf classifies an error of Client.Do; an error that wraps ErrStopped is OtherTrouble.
func ReasonOf(err error) outcome.Reason {
	var timeout interface{ Timeout() bool }
	blocked, _ := errors.AsType[*BlockedError](err)
	switch op, _ := errors.AsType[*net.OpError](err); {
	case err == nil:
		return outcome.ReasonNone
	case errors.Is(err, ErrStopped):
		return outcome.OtherTrouble
	case blocked != nil && blocked.Name == "":
		return outcome.BlockedAddr
	case is[*RequestError](err):
		return outcome.BadRequest
	case is[*InvalidAnswerError](err):
		return outcome.InvalidAnswer
	case is[*net.DNSError](err), blocked != nil:
		// Before the time-outs: a resolver that does not answer is a DNS failure.
		return outcome.DNS
	case errors.Is(err, ErrTimeout):
		return outcome.Timeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return outcome.ConnRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, syscall.ECONNABORTED), errors.Is(err, syscall.ETIMEDOUT):
		// The system reports ETIMEDOUT minutes after Client's own time-outs, so the
		// connection was established long before.
		return outcome.ConnReset
	case errors.As(err, &timeout) && timeout.Timeout():
		return outcome.Timeout
	case is[*TLSError](err), op != nil && op.Op == "remote error":
		// crypto/tls says "remote error" for an alert that the host has sent.
		return outcome.TLS
	case is[streamError](err), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return outcome.ConnReset
	}
	return outcome.OtherTrouble
}
