package awssdk

import (
	"context"
	"errors"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// AttemptLog records the result of each attempt that the SDK makes for one call.
// The zero value is ready to use; add it to the call's APIOptions.
//
// The SDK retries by itself and reports the last attempt only, which does not
// distinguish a definite failure from an ambiguous one. If a first attempt was carried out, its answer
// was lost, and a second attempt was throttled, the call looks as if it never happened. A
// caller that rolls back on such an error would lose or double an activity.
type AttemptLog struct {
	mu       sync.Mutex
	attempts []attempt
}

type attempt struct {
	sent bool // the request's headers were written
	err  error
}

// AddTo returns a call's APIOptions with the log added. It copies the slice,
// which belongs to the client and is shared by other calls.
func (l *AttemptLog) AddTo(options []func(*middleware.Stack) error) []func(*middleware.Stack) error {
	return append(slices.Clone(options), func(stack *middleware.Stack) error {
		// Inside the SDK's retry loop.
		return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("fedpost.Attempt", l.record), "Retry", middleware.After)
	})
}

func (l *AttemptLog) record(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	middleware.FinalizeOutput, middleware.Metadata, error,
) {
	// The trace may be called after the attempt has returned.
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	out, metadata, err := next.HandleFinalize(ctx, in)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts = append(l.attempts, attempt{sent: sent.Load(), err: err})
	return out, metadata, err
}

// Count is how many attempts were made.
func (l *AttemptLog) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.attempts)
}

// MayHaveActed reports whether the service may have carried out the call: some
// attempt succeeded, or was sent and not refused.
func (l *AttemptLog) MayHaveActed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.attempts, attempt.mayHaveActed)
}

// EarlierMayHaveActed does what MayHaveActed does, for all attempts but the last:
// what the last attempt found may be an earlier attempt's work.
func (l *AttemptLog) EarlierMayHaveActed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.attempts[:max(0, len(l.attempts)-1)], attempt.mayHaveActed)
}

func (a attempt) mayHaveActed() bool {
	return a.err == nil || a.sent && !refused(a.err)
}

// refused reports whether the service answered that it did not carry out the
// call. AWS answers 4xx to calls that it has not begun: invalid requests, missing
// resources, conditions that fail, throttling. A 5xx may come from a call that is
// half done.
//
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html
func refused(err error) bool {
	answer, ok := errors.AsType[*smithyhttp.ResponseError](err)
	return ok && answer.HTTPStatusCode() >= 400 && answer.HTTPStatusCode() < 500
}
