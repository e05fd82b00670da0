package lambda

import (
	"bytes"
	"context"
	"fmt"
	stdlog "log"
	"log/slog"
	"runtime/debug"
)

// logged makes a handler log why an invocation fails, as a line with its request id.
// aws-lambda-go prints the error, too, as plain text in which Logs Insights finds no
// fields; that line is left out. Its other lines are of a runtime that does not work.
func logged[In, Out any](log *slog.Logger, handle func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(plain{log})
	return func(ctx context.Context, in In) (out Out, err error) {
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
		p.log.ErrorContext(context.Background(), "Lambda's runtime", "error", string(bytes.TrimSpace(line)))
	}
	return len(line), nil
}
