package lambda

import (
	"bytes"
	"context"
	"fmt"
	stdlog "log"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

// logged makes a handler log the cold start, with its first invocation's request id, and why an
// invocation fails. It drops the line that aws-lambda-go prints for a failed invocation: plain
// text, in which Logs Insights finds no fields.
func logged[In, Out any](log *slog.Logger, handle func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(plain{log})
	var ready sync.Once
	return func(ctx context.Context, in In) (out Out, err error) {
		ready.Do(func() {
			log.InfoContext(ctx, "ready after a cold start", "function", lambdacontext.FunctionName, "memory_mb", lambdacontext.MemoryLimitInMB, "go", runtime.Version())
		})
		defer func() {
			if v := recover(); v != nil {
				log.ErrorContext(ctx, "the invocation failed", "error", fmt.Sprint("panic: ", v), "stack", string(debug.Stack()))
				panic(v) // Lambda starts the process anew
			}
			if err != nil {
				log.ErrorContext(ctx, "the invocation failed", "error", err)
			}
		}()
		return handle(ctx, in)
	}
}

// plain takes the lines of the standard library's logger.
type plain struct{ log *slog.Logger }

func (p plain) Write(line []byte) (int, error) {
	if !bytes.HasPrefix(line, []byte(`{"errorMessage":`)) {
		p.log.ErrorContext(context.Background(), "a fault of Lambda's runtime", "error", string(bytes.TrimSpace(line)))
	}
	return len(line), nil
}
