package webhook_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"fedpost/internal/protocol/webhook"
)

// TestAWebhookThatSaysLaterForDaysIsDisabled: after five days of failures of any kind without a
// success a webhook is disabled.
func TestAWebhookThatSaysLaterForDaysIsDisabled(t *testing.T) {
	b := newBed(t, true)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer s.Close()
	b.put("one", webhook.Settings{URL: s.URL})
	handed := 0
	for range 10 {
		b.happens(1, "recipient.gone", "{}")
		for _, one := range b.pump() {
			handed++
			b.try(one)
		}
		b.now = b.now.Add(24 * time.Hour)
	}
	if w := b.store.all["one"]; handed > 6 || w.DisabledAt.IsZero() || w.LastError == "" {
		t.Errorf("handed over %d, %+v", handed, w)
	}
}

// TestAWebhookThatWasBusyForAWhileStays: one success ends the count of failing days.
func TestAWebhookThatWasBusyForAWhileStays(t *testing.T) {
	b := newBed(t, true)
	day := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if day%4 != 3 {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	b.put("one", webhook.Settings{URL: s.URL})
	handed := 0
	for ; day < 20; day++ {
		b.happens(1, "recipient.gone", "{}")
		for _, one := range b.pump() {
			handed++
			b.try(one)
		}
		b.now = b.now.Add(24 * time.Hour)
	}
	if w := b.store.all["one"]; handed != 20 || !w.DisabledAt.IsZero() {
		t.Errorf("handed over %d, %+v", handed, w)
	}
}
