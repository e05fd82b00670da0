package webhook_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/protocol/webhook"
)

// TestAWebhookWithABacklogKeepsNoOtherWaiting: handing over thousands of requests takes
// longer than a run may. The run ends in time, and without an error.
func TestAWebhookWithABacklogKeepsNoOtherWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, true)
		b.put("a", webhook.Settings{URL: "https://a.example/"})
		b.put("z", webhook.Settings{URL: "https://z.example/", Batch: true})
		b.happens(8000, "recipient.gone", "{}")
		got := map[string]int{}
		p := &webhook.Pump{Store: b.store, Feed: feedUntil{b}, Hand: func(ctx context.Context, all []webhook.Sending) error {
			time.Sleep(time.Duration(len(all)) * 50 * time.Microsecond) // virtual
			for _, s := range all {
				got[s.Activity.KeyID]++
			}
			return ctx.Err()
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+200*time.Millisecond)
		defer cancel()
		if err := p.Check(ctx, b.now); err != nil {
			t.Errorf("error %v", err)
		}
		if got["z"] == 0 || got["a"] >= 8000 {
			t.Errorf("handed over %v", got)
		}
	})
}

type feedUntil struct{ *bed }

func (f feedUntil) After(ctx context.Context, cursor string, limit int) ([]webhook.Event, string, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", false, err
	}
	return f.bed.After(ctx, cursor, limit)
}

// TestWebhooksInTroubleAreCounted, in each run while the trouble lasts: an alarm is on it.
func TestWebhooksInTroubleAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *webhook.Webhook, now time.Time)
		want   int
	}{
		"well":                  {func(*webhook.Webhook, time.Time) {}, 0},
		"fails for 59 minutes":  {func(w *webhook.Webhook, now time.Time) { w.FailingSince = now.Add(-59 * time.Minute) }, 0},
		"fails for an hour":     {func(w *webhook.Webhook, now time.Time) { w.FailingSince = now.Add(-time.Hour) }, 2},
		"is disabled":           {func(w *webhook.Webhook, now time.Time) { w.DisabledAt = now.Add(-20 * 24 * time.Hour) }, 2},
		"is disabled this time": {func(w *webhook.Webhook, now time.Time) { w.FailingSince = now.Add(-webhook.GiveUp) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, true)
			b.put("a", webhook.Settings{URL: "https://a.example/"})
			b.put("z", webhook.Settings{URL: "https://z.example/"})
			w, err := b.store.Webhook(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			c.change(&w, b.now)
			if _, err := b.store.SaveWebhook(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			got := 0
			p := &webhook.Pump{
				Store: b.store, Feed: b, Hand: func(context.Context, []webhook.Sending) error { return nil },
				Counted: func(what string, n int) {
					if what != webhook.Trouble || n == 0 {
						t.Errorf("counted %d %s", n, what)
					}
					got += n
				},
			}
			for range 2 {
				if err := p.Check(t.Context(), b.now); err != nil {
					t.Fatal(err)
				}
			}
			if got != c.want {
				t.Errorf("counted %d in two runs, want %d", got, c.want)
			}
		})
	}
}
