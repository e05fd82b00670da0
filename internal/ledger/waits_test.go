package ledger_test

import (
	"context"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/circuit"
)

// circuits is a Circuits in memory that counts its reads.
type circuits struct {
	states map[string]circuit.State
	asked  [][]string
}

func (c *circuits) Servers(_ context.Context, keys ...string) (map[string]circuit.State, error) {
	c.asked = append(c.asked, keys)
	found := map[string]circuit.State{}
	for _, k := range keys {
		if s, ok := c.states[k]; ok {
			found[k] = s
		}
	}
	return found, nil
}

// TestWhatWaitsForABlockedHostSaysThatItEnds, at once after the block.
func TestWhatWaitsForABlockedHostSaysThatItEnds(t *testing.T) {
	c := &circuits{states: map[string]circuit.State{"host:spam.example": {Phase: circuit.Blocked, Why: "spam"}}}
	rs := []ledger.RecipientView{
		{Inbox: "https://spam.example/inbox", State: activity.Parked},
		{Inbox: "https://spam.example/inbox", State: activity.Retrying, LastError: "503"},
		{Inbox: "https://other.example/inbox", State: activity.Retrying, LastError: "503"},
	}
	if err := ledger.Explain(t.Context(), c, rs, now); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"blocked, so this ends within a minute: spam", "blocked, so this ends at its next try: spam", "503"} {
		if rs[i].Reason != want {
			t.Errorf("%s %s: %q, want %q", rs[i].State, rs[i].Inbox, rs[i].Reason, want)
		}
	}
}

func TestAParkedRecipientSaysWhatItWaitsFor(t *testing.T) {
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	c := &circuits{states: map[string]circuit.State{
		"host:down.example":    {Phase: circuit.Unhealthy, Reason: outcome.ConnRefused, DownSince: at(-9), CheckAt: at(5), Parked: true},
		"host:paused.example":  {Phase: circuit.Paused, Until: at(30), CheckAt: at(30), Parked: true},
		"host:long.example":    {Phase: circuit.Paused, Until: at(5000), CheckAt: at(1440), Parked: true},
		"host:until.example":   {Phase: circuit.Paused, Until: at(40)},
		"host:limited.example": {Phase: circuit.Healthy, Rate: 30, CheckAt: at(1), Parked: true},
		"host:held.example":    {Phase: circuit.Healthy, CheckAt: at(1440), Parked: true},
		"host:one.example":     {Phase: circuit.Healthy, Rate: 30},
		"host:back.example":    {Phase: circuit.Recovering, CheckAt: at(1), Parked: true},

		"inbox:https://one.example/full":        {Phase: circuit.Unhealthy, CheckAt: at(7), Parked: true},
		"inbox:https://one.example/full#key-ab": {Phase: circuit.Unhealthy, CheckAt: at(8), Parked: true},
		"inbox:https://one.example/#hostkey-ab": {Phase: circuit.Unhealthy, CheckAt: at(9), Parked: true},
		"inbox:https://one.example/back":        {Phase: circuit.Healthy},
		"inbox:https://one.example/forgotten":   {Phase: circuit.Healthy, Parked: true},
		"inbox:https://until.example/full":      {Phase: circuit.Unhealthy, CheckAt: at(6), Parked: true},
		"inbox:https://down.example/full":       {Phase: circuit.Unhealthy, CheckAt: at(3), Parked: true},
	}}
	var rs []ledger.RecipientView
	type want struct {
		waits string
		next  time.Time
	}
	var wants []want
	for _, w := range []struct {
		inbox, lot string // the lot is the host's if it is empty
		own        int    // minutes to its own due time; 0: none
		waits      string
		next       time.Time
	}{
		{"https://down.example/inbox", "", 0, "down.example", at(5)},
		{"https://down.example/full", "inbox:https://down.example/full", 0, "down.example", at(5)},
		{"https://paused.example/inbox", "", 0, "paused.example", at(30)},
		{"https://long.example/inbox", "", 0, "long.example", at(1440)},
		{"https://until.example/inbox", "", 0, "until.example", at(40)},
		{"https://until.example/full", "inbox:https://until.example/full", 0, "until.example", at(6)},
		{"https://limited.example/inbox", "", 0, "limited.example", at(1)},
		{"https://held.example/inbox", "", 20, "held.example", at(20)},
		{"https://held.example/late", "", -20, "held.example", at(1440)},
		{"https://one.example/full", "inbox:https://one.example/full", 0, "inbox:https://one.example/full", at(7)},
		{"https://one.example/full", "inbox:https://one.example/full#key-ab", 0, "inbox:https://one.example/full#key-ab", at(8)},
		{"https://one.example/full", "inbox:https://one.example/#hostkey-ab", 0, "inbox:https://one.example/#hostkey-ab", at(9)},
		{"https://back.example/inbox", "", 0, "back.example", at(1)},

		// The lot was seen empty: the recipient's message is on its queue.
		{"https://one.example/back", "inbox:https://one.example/back", -20, "inbox:https://one.example/back", now},
		{"https://unknown.example/inbox", "", 0, "unknown.example", now},
		// Nobody looks at what is parked: a fault that is shown as it is.
		{"https://one.example/forgotten", "inbox:https://one.example/forgotten", 0, "inbox:https://one.example/forgotten", time.Time{}},
	} {
		r := ledger.RecipientView{Inbox: w.inbox, State: activity.Parked, Lot: w.lot}
		if w.own != 0 {
			r.NextAttemptAt = at(w.own)
		}
		rs, wants = append(rs, r), append(wants, want{w.waits, w.next})
	}
	for _, s := range []activity.State{activity.Delivered, activity.Retrying, activity.Queued, activity.Dead} {
		rs = append(rs, ledger.RecipientView{Inbox: "https://down.example/" + string(s), State: s, LastError: "answered 503"})
	}
	if err := ledger.Explain(t.Context(), c, rs, now); err != nil {
		t.Fatal(err)
	}
	wants = append(wants, make([]want, len(rs)-len(wants))...)
	for i, r := range rs {
		if w := wants[i]; r.WaitsFor != w.waits || !r.NextAttemptAt.Equal(w.next) {
			t.Errorf("%s waits for %q until %s, want %q until %s", r.Inbox, r.WaitsFor, r.NextAttemptAt, w.waits, w.next)
		}
	}
	if len(c.asked) != 1 {
		t.Errorf("%d reads, want one: %v", len(c.asked), c.asked)
	}

	for i, want := range map[int]string{
		0: "connection refused since " + at(-9).Format("15:04") + " UTC", 1: "connection refused since " + at(-9).Format("15:04") + " UTC",
		6: "gets 30 deliveries a minute", len(rs) - 4: "", len(rs) - 3: "answered 503", len(rs) - 2: "waits on its queue", len(rs) - 1: "",
	} {
		if got := rs[i].Reason; got != want {
			t.Errorf("%s, %s: reason %q, want %q", rs[i].Inbox, rs[i].State, got, want)
		}
	}

	// Recipients that are not parked cost no read.
	c.asked = nil
	if err := ledger.Explain(t.Context(), c, rs[len(rs)-1:], now); err != nil || c.asked != nil {
		t.Errorf("%v, asked %v", err, c.asked)
	}
}
