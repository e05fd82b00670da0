package world

import (
	"fmt"
	"strings"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/circuit"
)

// Brief describes a value for the message of a failing test in one line or a few. A dump
// of all fields of a recipient or of a server's state would fill the screen with zeros.
func Brief(v any) string {
	switch v := v.(type) {
	case ledger.Recipient:
		return fmt.Sprintf("%s after %d attempts and %d unsent, status %d, error %.80q, note %.80q, generation %d, next %s",
			v.State, v.Attempts, v.Unsent, v.LastStatus, v.LastError, v.Note, v.Generation, clock(v.NextAttemptAt))
	case circuit.State:
		return fmt.Sprintf("%s is %s (%.80q), parked %t, streak %d, checks %d, trials %d, next check %s, until %s",
			v.Key, v.Phase, v.Why, v.Parked, v.Streak, v.Checks, v.Trials, clock(v.CheckAt), clock(v.Until))
	case outcome.Outcome:
		return fmt.Sprintf("%s, status %d, reason %q, error %.80q, note %.80q, retry after %s",
			v.Class, v.Status, v.Reason, v.Err, v.Note, clock(v.RetryAfter))
	case deliver.Death:
		return fmt.Sprintf("%s: %s: %s", v.Recipient.Target.Inbox, v.Reason, Brief(v.Recipient))
	case []deliver.Death:
		const most = 5
		lines := []string{fmt.Sprintf("%d deaths", len(v))}
		for _, d := range v[:min(most, len(v))] {
			lines = append(lines, Brief(d))
		}
		return strings.Join(lines, "\n\t")
	}
	s := fmt.Sprintf("%+v", v)
	return s[:min(300, len(s))]
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("02 15:04:05")
}
