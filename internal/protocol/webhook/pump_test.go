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
