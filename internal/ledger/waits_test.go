package ledger_test

import (
	"context"
	"testing"
	"time"

	"fedpost/internal/activity"
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

func TestAParkedRecipientSaysWhatItWaitsFor(t *testing.T) {
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	c := &circuits{states: map[string]circuit.State{
		"host:down.example":    {Phase: circuit.Unhealthy, CheckAt: at(5), Parked: true},
		"host:paused.example":  {Phase: circuit.Paused, Until: at(30), CheckAt: at(30), Parked: true},
		"host:long.example":    {Phase: circuit.Paused, Until: at(5000), CheckAt: at(1440), Parked: true},
		"host:until.example":   {Phase: circuit.Paused, Until: at(40)},
		"host:limited.example": {Phase: circuit.Healthy, Rate: 30, CheckAt: at(1), Parked: true, InboxesUntil: at(60)},
		"host:one.example":     {Phase: circuit.Healthy, InboxesUntil: at(60)},
		"host:back.example":    {Phase: circuit.Recovering, CheckAt: at(1), Parked: true},

		"inbox:https://one.example/full": {Phase: circuit.Unhealthy, CheckAt: at(7), Parked: true},
	}}
	var rs []ledger.RecipientView
	want := map[string]struct {
		waits string
		next  time.Time
	}{
		"https://down.example/inbox":    {"down.example", at(5)},
		"https://paused.example/inbox":  {"paused.example", at(30)},
		"https://long.example/inbox":    {"long.example", at(1440)},
		"https://until.example/inbox":   {"until.example", at(40)},
		"https://limited.example/inbox": {"limited.example", at(1)},
		"https://one.example/full":      {"inbox:https://one.example/full", at(7)},
		"https://one.example/other":     {"one.example", at(99)},
		"https://back.example/inbox":    {"back.example", at(1)},
		"https://unknown.example/inbox": {"unknown.example", at(99)},
	}
	for inbox := range want {
		rs = append(rs, ledger.RecipientView{Inbox: inbox, State: activity.Parked, NextAttemptAt: at(99)})
	}
	for _, s := range []activity.State{activity.Delivered, activity.Retrying, activity.Queued, activity.Dead} {
		rs = append(rs, ledger.RecipientView{Inbox: "https://down.example/" + string(s), State: s})
	}
	if err := ledger.Explain(t.Context(), c, rs, now); err != nil {
		t.Fatal(err)
	}
	for _, r := range rs {
		if w := want[r.Inbox]; r.WaitsFor != w.waits || !r.NextAttemptAt.Equal(w.next) {
			t.Errorf("%s waits for %q until %s, want %q until %s", r.Inbox, r.WaitsFor, r.NextAttemptAt, w.waits, w.next)
		}
	}
	if len(c.asked) != 2 || len(c.asked[1]) != 2 {
		t.Errorf("%d reads: %v", len(c.asked), c.asked)
	}

	// Who has nothing parked asks nothing.
	c.asked = nil
	if err := ledger.Explain(t.Context(), c, rs[len(rs)-1:], now); err != nil || c.asked != nil {
		t.Errorf("%v, asked %v", err, c.asked)
	}
}
