package cache_test

import (
	"log/slog"
	"testing"
	"time"

	"fedpost/internal/servers/cache"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/world"
)

func TestTheSignatureFormOfAHostIsSharedAndExpires(t *testing.T) {
	w := world.New(t, world.Options{})
	process := func() *cache.Hosts {
		return cache.New(w.Store, circuit.Default(), time.Minute, w.Now, slog.New(slog.DiscardHandler))
	}
	until := w.Clock.Now().Add(time.Hour)
	one, other := process(), process()
	one.RememberForm("strict.example", "rfc9421", until)
	if got, _ := one.Form("strict.example"); got != "" {
		t.Errorf("after one delivery it is believed to take %q", got)
	}
	w.Clock.Advance(time.Minute)
	one.RememberForm("strict.example", "rfc9421", until)
	if err := one.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := one.Form("strict.example"); got != "rfc9421" {
		t.Errorf("the process that learnt it knows %q", got)
	}
	if got, _ := one.Form("other.example"); got != "" {
		t.Errorf("of another host it knows %q", got)
	}

	// Another process knows it once it has looked at the host, which it does
	// before it delivers there.
	found, err := w.Store.Servers(t.Context(), "host:strict.example")
	if err != nil || found["host:strict.example"].FormAt(w.Clock.Now()) != "rfc9421" {
		t.Fatalf("stored %+v, %v", found, err)
	}
	if got, _ := other.Form("strict.example"); got != "" {
		t.Errorf("without a look the other process knows %q", got)
	}
	w.Clock.Advance(time.Hour - time.Minute)
	if got, _ := one.Form("strict.example"); got != "" {
		t.Errorf("after its time it is still %q", got)
	}
}
