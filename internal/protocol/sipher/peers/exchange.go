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
)

// Exchange makes single requests to other servers, each with its own deadline.
type Exchange struct{ client *outbound.Client }

func NewExchange(c *outbound.Client) Exchange { return Exchange{c} }

// Get asks for a URL. The error, if any, is a *Fault.
func (x Exchange) Get(ctx context.Context, url string, timeout time.Duration) (outbound.Answer, error) {
	return x.do(ctx, http.MethodGet, url, map[string]string{"Accept": "application/json"}, "", timeout)
}

// Post posts a body. The error, if any, is a *Fault.
func (x Exchange) Post(ctx context.Context, url string, headers map[string]string, body string, timeout time.Duration) (outbound.Answer, error) {
	return x.do(ctx, http.MethodPost, url, headers, body, timeout)
}

func (x Exchange) do(ctx context.Context, method, url string, headers map[string]string, body string, timeout time.Duration) (outbound.Answer, error) {
	// The cause counts the end of this time against the host.
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, outbound.ErrTimeout)
	defer cancel()
	r, err := outbound.NewRequest(ctx, method, url, body)
	if err != nil {
		return outbound.Answer{}, fault(err)
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	a, err := x.client.Do(ctx, r)
	if err != nil {
		return outbound.Answer{}, fault(err)
	}
	// The acknowledgement is in the body of a 2xx answer, so a broken one is no answer. Of a
	// refusal the status is enough, of a long body the part that was read.
	if a.OK() && a.BodyErr != nil && !errors.Is(a.BodyErr, outbound.ErrTooLong) {
		return outbound.Answer{}, fault(a.BodyErr)
	}
	return a, nil
}

// Fault says that no answer came, and whose fault that is. Only a fault of the other server marks it
// unhealthy and permits a proxy: not a refusal of our address guard, nor our own shutdown.
type Fault struct {
	Err error
	// Class is the fault as records show it, Reason as the registry does.
	Class  outcome.Reason
	Reason Reason
	// Stopped: our own caller ended the request.
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

// reasonOf is ReasonOf, but a connection that was closed without a complete answer is Unknown: for
// Sipher only a reset one is ConnReset, for which no proxy is asked.
func reasonOf(class outcome.Reason, err error) Reason {
	if class == outcome.ConnReset && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return Unknown
	}
	return ReasonOf(class)
}

// FaultOf returns the *Fault in err, or an unclassified one of the host.
func FaultOf(err error) *Fault {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	return &Fault{Err: err, Class: outcome.OtherTrouble, Reason: Unknown, Host: true}
}

// StatusError is the error for an answer other than 2xx.
func StatusError(what string, a outbound.Answer) error {
	return fmt.Errorf("%s answered %d: %s", what, a.Status, outcome.Clean(a.Excerpt(), 200))
}
