package lambda

import (
	"context"
	"log/slog"

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
