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

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/app/config"
	"fedpost/internal/app/lambda/metrics"
)

// from returns a logger that drops lines below a level.
//
// Lambda's own filter would drop metrics, too: it takes a line without a level for INFO. So the
// template lets Lambda keep all lines.
// https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html
func from(level config.Level, log *slog.Logger) *slog.Logger {
	return slog.New(leveled{log.Handler(), slog.Level(level)})
}

type leveled struct {
	slog.Handler
	level slog.Level
}

func (l leveled) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= l.level && l.Handler.Enabled(ctx, level)
}

func (l leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{l.Handler.WithAttrs(attrs), l.level}
}

func (l leveled) WithGroup(name string) slog.Handler {
	return leveled{l.Handler.WithGroup(name), l.level}
}

// faults counts only failures of fedpost. The others are counted by API Gateway and in the table;
// each metric costs $0.30 a month.
type faults struct{ *metrics.Meter }

// Attempted implements stats.Metrics; the API makes no attempts.
func (faults) Attempted(activity.Activity, outcome.Outcome, activity.State) {}

// Counted implements stats.Metrics.
func (f faults) Counted(name string, n int) {
	switch name {
	case "Faults", "Unrecorded", "DeduplicationFallbacks":
		f.Meter.Counted(name, n)
	}
}

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
