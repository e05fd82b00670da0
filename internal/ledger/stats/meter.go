package stats

import (
	"context"
	"log/slog"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/ledger"
)

// Names of counts that are no states of recipients.
const (
	// Accepted recipients, by the API.
	Accepted = "accepted"
	// Attempts that were made.
	Attempts = "attempts"
)

// Names of counts by package enqueue. They are of calls and activities, not of
// recipients.
const (
	// Duplicates are calls that were answered as duplicates.
	Duplicates = "duplicates"
	// Fallbacks are calls whose deduplication key could not be looked up.
	Fallbacks = "deduplicationFallbacks"
	// Unrecorded are activities that were accepted while the table was down.
	Unrecorded = "unrecorded"
)

// Revived are dead deliveries that were parked again automatically because their server is back
// (REVIVE_WITHIN), not those that an operator retries.
const Revived = "revived"

// tallies names the counters of Metrics that statistics have, too.
var tallies = map[string]string{
	"Parked": string(activity.Parked), "Duplicates": Duplicates, "DeduplicationFallbacks": Fallbacks, "Unrecorded": Unrecorded, "Revived": Revived,
}

// Tallied reports whether a counter of Metrics is counted in the Tally, too.
func Tallied(name string) bool {
	_, ok := tallies[name]
	return ok
}

// Metrics count for a monitoring system.
type Metrics interface {
	// Attempted is called after each attempt, with the state it led to.
	Attempted(a activity.Activity, o outcome.Outcome, s activity.State)
	// Counted adds to a counter, such as "Parked".
	Counted(name string, n int)
}

// Meter counts in a process's Tally, and passes on to Metrics what those count.
type Meter struct {
	Tally   *Tally
	Metrics Metrics // may be nil
	Log     *slog.Logger
}

// Accepted counts recipients that the API has accepted, and writes the counts.
func (m Meter) Accepted(ctx context.Context, recipients int) {
	m.Tally.Add(Accepted, recipients)
	m.Flush(ctx)
}

// Attempted counts an attempt.
func (m Meter) Attempted(a activity.Activity, o outcome.Outcome, s activity.State) {
	if o.Try == outcome.Made {
		m.Tally.Add(Attempts, 1)
	}
	if m.Metrics != nil {
		m.Metrics.Attempted(a, o, s)
	}
}

// Recorded counts recipients by their state, after the ledger has recorded them. So
// work that is repeated after a crash is counted once.
func (m Meter) Recorded(rs []ledger.Recipient) {
	for _, r := range rs {
		// Most parked recipients have no record, so Counted counts them.
		if r.State != activity.Parked {
			m.Tally.Add(string(r.State), max(1, r.Target.Stands))
		}
	}
}

func (m Meter) Counted(name string, n int) {
	if tallied, ok := tallies[name]; ok {
		m.Tally.Add(tallied, n)
	}
	if m.Metrics != nil {
		m.Metrics.Counted(name, n)
	}
}

// Flush writes counts, at the end of a request or batch: a function may be frozen for good after
// it. A failure is logged; the next flush writes the same counts.
func (m Meter) Flush(ctx context.Context) {
	if err := m.Tally.Flush(ctx); err != nil {
		m.Log.WarnContext(ctx, "counts could not be written", "error", err)
	}
}
