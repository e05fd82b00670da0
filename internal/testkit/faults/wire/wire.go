// Package wire breaks requests to AWS on the wire, below the SDK's retries, and stands in
// for an AWS service that answers as real ones seldom do: one entry of a batch fails, items
// are unprocessed, a transaction is cancelled for contention.
//
// Faults at the ports test fedpost's own code, but not the SDK's reaction to a fault: a
// retry that conflicts with its own first attempt, or a send that is reported as refused
// after an earlier attempt succeeded. Only faults below the SDK show those.
package wire

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"syscall"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"fedpost/internal/testkit/faults"
)

// Kind is how a request goes wrong.
type Kind int

const (
	// FailBefore: no connection; nothing was sent.
	FailBefore Kind = iota + 1
	// Delay: the request takes Fault.Delay longer and succeeds.
	Delay
	// Timeout: the request is sent but does not arrive; the client stops waiting.
	Timeout
	// DropResponse: the server acts, and the connection breaks before it answers.
	DropResponse
	// Throttle: the server refuses the request for now, without acting.
	Throttle
	// Break: the server answers 500 without acting. A client cannot know that the
	// server did not act.
	Break
	// DieAfter: the server acts, and the process dies before the answer comes:
	// this and all later requests fail with faults.ErrDead, until Revive.
	DieAfter
)

func (k Kind) String() string {
	names := [...]string{"none", "FailBefore", "Delay", "Timeout", "DropResponse", "Throttle", "Break", "DieAfter"}
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return names[k]
}

// Fault makes requests go wrong.
type Fault struct {
	// Service and Operation say which requests are counted, as the SDK names
	// them ("DynamoDB", "PutItem"); empty ones match any.
	Service, Operation string
	// Request is the number of the first one that goes wrong, from 1.
	Request int
	// Times is how many requests in a row go wrong; 0 counts as 1.
	Times int
	Kind  Kind
	Delay time.Duration // of Kind Delay
}

// Wire breaks requests of all clients that it is installed in. It is safe for
// concurrent use, and deterministic as far as the order of requests is.
type Wire struct {
	// Sleep waits for Delay; a timer if nil.
	Sleep func(ctx context.Context, d time.Duration) error

	mu     sync.Mutex
	faults []Fault
	seen   []int // requests that matched each fault
	fired  int
	dead   bool
}

// NewWire returns a wire with faults.
func NewWire(fs ...Fault) *Wire {
	return &Wire{Sleep: sleep, faults: fs, seen: make([]int, len(fs))}
}

// Install adds the wire to a client: append it to aws.Config.APIOptions.
func (w *Wire) Install(stack *middleware.Stack) error {
	return install(stack, "fedpost.Wire", w.handle)
}

// install puts f last, next to the HTTP client.
func install(stack *middleware.Stack, id string, f func(context.Context, middleware.DeserializeInput, middleware.DeserializeHandler) (
	middleware.DeserializeOutput, middleware.Metadata, error,
),
) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc(id, f), middleware.After)
}

// Fired returns how many requests the faults have broken. Requests of a dead process do
// not count.
func (w *Wire) Fired() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fired
}

// Dead reports whether the process is dead.
func (w *Wire) Dead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// Revive starts the process again.
func (w *Wire) Revive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = false
}

// next counts a request and returns its fault: the first that matches.
func (w *Wire) next(service, operation string) (Fault, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return Fault{}, fmt.Errorf("%w (before %s.%s)", faults.ErrDead, service, operation)
	}
	var hit Fault
	for i, f := range w.faults {
		if f.Service != "" && f.Service != service || f.Operation != "" && f.Operation != operation {
			continue
		}
		w.seen[i]++
		if n := w.seen[i]; hit.Kind == 0 && n >= f.Request && n < f.Request+max(1, f.Times) {
			hit = f
		}
	}
	if hit.Kind != 0 {
		w.fired++
	}
	return hit, nil
}

func (w *Wire) handle(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
	out middleware.DeserializeOutput, metadata middleware.Metadata, err error,
) {
	service, operation := awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx)
	f, err := w.next(service, operation)
	if err != nil {
		return out, metadata, err
	}
	switch f.Kind {
	case FailBefore:
		return out, metadata, notConnected(f.Kind)
	case Timeout:
		wroteRequest(ctx)
		return out, metadata, connectionError(f.Kind, syscall.ETIMEDOUT)
	case Throttle:
		wroteRequest(ctx)
		out.RawResponse = answer(http.StatusBadRequest, throttleCode(service))
		return out, metadata, nil
	case Break:
		wroteRequest(ctx)
		out.RawResponse = answer(http.StatusInternalServerError, "InternalServerError")
		return out, metadata, nil
	case Delay:
		if err := w.Sleep(ctx, f.Delay); err != nil {
			return out, metadata, &smithyhttp.RequestSendError{Err: err}
		}
	}
	out, metadata, err = next.HandleDeserialize(ctx, in)
	switch f.Kind {
	case DropResponse:
		return middleware.DeserializeOutput{}, metadata, lose(out, connectionError(f.Kind, syscall.ECONNRESET))
	case DieAfter:
		w.mu.Lock()
		w.dead = true
		w.mu.Unlock()
		return middleware.DeserializeOutput{}, metadata, lose(out, fmt.Errorf("%w (after %s.%s)", faults.ErrDead, service, operation))
	}
	return out, metadata, err
}

// lose throws an answer away.
func lose(out middleware.DeserializeOutput, err error) error {
	if r, ok := out.RawResponse.(*smithyhttp.Response); ok && r.Body != nil {
		// Read to its end, so that the connection stays usable.
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	return err
}

// wroteRequest tells whoever traces the request that it was sent.
func wroteRequest(ctx context.Context) {
	if t := httptrace.ContextClientTrace(ctx); t != nil && t.WroteHeaders != nil {
		t.WroteHeaders()
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
