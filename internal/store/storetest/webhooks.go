package storetest

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fedpost/internal/ledger/events"
	"fedpost/internal/protocol/webhook"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/store"
)

var webhooks = group{"webhooks", []testCase{
	{"AWebhookIsReadAsItWasSaved", func(b *bed) {
		w := b.webhook()
		saved, err := b.SaveWebhook(b.ctx, w)
		b.must(err)
		w.Version = saved.Version
		b.same(w, saved)
		got, err := b.Webhook(b.ctx, w.ID)
		b.must(err)
		b.same(w, got)
		all, err := b.Webhooks(b.ctx)
		b.must(err)
		n := 0
		for _, one := range all {
			if one.ID == w.ID {
				n++
				b.same(w, one)
			}
		}
		if n != 1 {
			b.t.Errorf("listed %d times", n)
		}
		b.must(b.DeleteWebhook(b.ctx, w.ID))
		if err := b.DeleteWebhook(b.ctx, w.ID); !errors.Is(err, webhook.ErrNotFound) {
			b.t.Errorf("deleted again: %v", err)
		}
		if _, err := b.Webhook(b.ctx, w.ID); !errors.Is(err, webhook.ErrNotFound) {
			b.t.Errorf("read: %v", err)
		}
		if _, err := b.SaveWebhook(b.ctx, got); !errors.Is(err, webhook.ErrChanged) {
			b.t.Errorf("a pump that has read it brings it back: %v", err)
		}
	}},
	{"OneOfManySavesOfAVersionSucceeds", func(b *bed) {
		w, err := b.SaveWebhook(b.ctx, b.webhook())
		b.must(err)
		var wg sync.WaitGroup
		var saved atomic.Int32
		for range 16 {
			wg.Go(func() {
				_, err := b.SaveWebhook(b.ctx, w)
				switch {
				case err == nil:
					saved.Add(1)
				case !errors.Is(err, webhook.ErrChanged):
					b.t.Error(err)
				}
			})
		}
		wg.Wait()
		if saved.Load() != 1 {
			b.t.Errorf("%d saves of one version", saved.Load())
		}
		b.must(b.DeleteWebhook(b.ctx, w.ID))
	}},
	{"ADisabledWebhookIsAnEvent", func(b *bed) {
		after := b.feedEnd()
		w, err := b.SaveWebhook(b.ctx, b.webhook())
		b.must(err)
		w.DisabledAt = b.Now()
		if _, err := store.New(&failing{Table: b.table, rate: 1}, b.Now).DisableWebhook(b.ctx, w); err == nil {
			b.t.Fatal("disabled")
		}
		stale := w
		w, err = b.DisableWebhook(b.ctx, w)
		b.must(err)
		if _, err := b.DisableWebhook(b.ctx, stale); !errors.Is(err, webhook.ErrChanged) {
			b.t.Errorf("disabled again: %v", err)
		}
		n := 0
		for _, e := range b.all(after) {
			if e.Kind == events.WebhookDisabled && e.Reason == "webhook "+w.ID+": "+w.LastError {
				n++
			}
		}
		if n != 1 {
			b.t.Errorf("%d events", n)
		}
		b.must(b.DeleteWebhook(b.ctx, w.ID))
	}},
	{"AWebhooksHostHasNoEvents", func(b *bed) {
		after, st := b.feedEnd(), b.server()
		host, _ := circuit.HostOf(strings.ToLower(st.Key))
		st.Key = circuit.HostKey(host)
		w := b.webhook()
		w.URL = "https://" + host + "/hook"
		w, err := b.SaveWebhook(b.ctx, w)
		b.must(err)
		st.LastEvent = ""
		st, err = b.SaveServer(b.ctx, st)
		b.must(err)
		st.Phase = circuit.Healthy
		_, err = b.SaveServer(b.ctx, st)
		b.must(err)
		for _, e := range b.all(after) {
			if e.Host == host {
				b.t.Errorf("the event is %+v, want none of this server", e)
			}
		}
		b.must(b.DeleteWebhook(b.ctx, w.ID))
	}},
}}

func (b *bed) webhook() webhook.Webhook {
	return webhook.Webhook{
		ID: string(b.newID()), URL: "https://hooks.example/", Types: []string{"recipient.gone"}, Batch: true,
		Secrets:   []webhook.Secret{{Sealed: []byte{0, 1, 2}}, {Sealed: []byte{3}, Until: b.in(time.Hour)}},
		CreatedAt: b.Now(), Cursor: "x", FailingSince: b.Now(), LastError: "500 <&>",
	}
}
