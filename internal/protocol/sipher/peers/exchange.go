package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/outbound"

	"fedpost/internal/protocol/sipher/wire"
)

// Doer sends a request and reads the answer; *outbound.Client is one. An error
// means that no answer came.
type Doer interface {
	Do(ctx context.Context, r *http.Request) (outbound.Answer, error)
}

// Answer is what a server answered.
type Answer struct {
	Status int
	Body   []byte
	// Excerpt is the beginning of the body, safe to show to people.
	Excerpt string
}

// OK reports whether the status is 2xx.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// Exchange makes single requests to other servers, each with its own deadline.
type Exchange struct{ d Doer }

// NewExchange returns an Exchange that sends with d.
func NewExchange(d Doer) Exchange { return Exchange{d} }

// Get asks for a URL. The error, if any, is a *Fault.
func (x Exchange) Get(ctx context.Context, url string, timeout time.Duration) (Answer, error) {
	return x.do(ctx, http.MethodGet, url, []wire.Header{{Name: "Accept", Value: "application/json"}}, "", timeout)
}

// Post posts a body. The error, if any, is a *Fault.
func (x Exchange) Post(ctx context.Context, url string, headers []wire.Header, body string, timeout time.Duration) (Answer, error) {
	return x.do(ctx, http.MethodPost, url, headers, body, timeout)
}

func (x Exchange) do(ctx context.Context, method, url string, headers []wire.Header, body string, timeout time.Duration) (Answer, error) {
	// The cause tells d that the host was too slow, and not that our own caller
	// has stopped.
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, outbound.ErrTimeout)
	defer cancel()
	r, err := outbound.NewRequest(ctx, method, url, body)
	if err != nil {
		return Answer{}, fault(err)
	}
	for _, h := range headers {
		r.Header.Set(h.Name, h.Value)
	}
	got, err := x.d.Do(ctx, r)
	if err != nil {
		return Answer{}, fault(err)
	}
	// The acknowledgement is in the body of a 2xx answer, so one that breaks off is
	// no answer. Of a refusal the status is enough, of a body that is too long the
	// part that was read.
	ok := got.Status >= 200 && got.Status < 300
	if ok && got.BodyErr != nil && !errors.Is(got.BodyErr, outbound.ErrTooLong) {
		return Answer{}, fault(got.BodyErr)
	}
	return Answer{Status: got.Status, Body: got.Body, Excerpt: got.Excerpt()}, nil
}

// Fault says that no answer came, and whose fault that is. Only a fault of the other
// server may mark that server unhealthy. A refusal of our address guard does not, and no
// proxy may be used to get around such a refusal. Our own shutdown does not either.
type Fault struct {
	Err error
	// Class is the fault as records show it, Reason as the registry does.
	Class  outcome.Reason
	Reason Reason
	// Stopped: our own caller ended the request, which says nothing about the host.
	Stopped bool
	// Host: the fault speaks against the other server.
	Host bool
}

func (f *Fault) Error() string { return f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }

func fault(err error) *Fault {
	f := &Fault{Err: err, Class: outbound.ReasonOf(err), Stopped: errors.Is(err, outbound.ErrStopped)}
	f.Host = !f.Stopped && f.Class != outcome.BlockedAddr && f.Class != outcome.BadRequest
	if f.Host {
		f.Reason = reasonOf(f.Class, err)
	}
	return f
}

// reasonOf is ReasonOf, but tells a connection that was closed without a
// complete answer from one that was reset: Sipher calls only the latter
// CONN_RESET, and asks no proxy then.
func reasonOf(class outcome.Reason, err error) Reason {
	if class == outcome.ConnReset && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return Unknown
	}
	return ReasonOf(class)
}

// FaultOf returns the *Fault in err. An error that has none is an unclassified
// one of the host.
func FaultOf(err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return &Fault{Err: err, Class: outcome.OtherTrouble, Reason: Unknown, Host: true}
}

// StatusError is the error for an answer other than 2xx.
func StatusError(what string, a Answer) error {
	return fmt.Errorf("%s answered %d: %s", what, a.Status, outcome.Clean(a.Excerpt, 200))
}
