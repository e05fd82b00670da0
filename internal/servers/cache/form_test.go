package cache_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/cache"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/world"
)

func at(inbox string) activity.Target {
	return activity.Target{Inbox: "https://strict.example" + inbox}
}

func process(w *world.World) *cache.Hosts {
	return cache.New(w.Store, circuit.Default(), time.Minute, w.Now, slog.New(slog.DiscardHandler))
}

func TestTheSignatureFormOfAHostIsSharedAndExpires(t *testing.T) {
	w := world.New(t, world.Options{})
	until := w.Clock.Now().Add(time.Hour)
	one, other := process(w), process(w)
	shared := at("/inbox")
	shared.Shared = true
	one.TookForm(shared, "cavage", "rfc9421", until)
	if got, _ := one.Form(shared); got != "" {
		t.Errorf("after one delivery it is believed to take %q", got)
	}
	w.Clock.Advance(time.Minute)
	one.TookForm(shared, "cavage", "rfc9421", until)
	if err := one.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := one.Form(at("/u/inbox")); got != "rfc9421" {
		t.Errorf("the process that learnt it knows %q", got)
	}
	if got, _ := one.Form(activity.Target{Inbox: "https://other.example/inbox"}); got != "" {
		t.Errorf("of another host it knows %q", got)
	}

	// Another process knows it once it has looked at the host, which it does
	// before it delivers there.
	found, err := w.Store.Servers(t.Context(), "host:strict.example")
	if err != nil || found["host:strict.example"].FormAt(w.Clock.Now()) != "rfc9421" {
		t.Fatalf("stored %+v, %v", found, err)
	}
	if got, _ := other.Form(shared); got != "" {
		t.Errorf("without a look the other process knows %q", got)
	}
	w.Clock.Advance(time.Hour - time.Minute)
	if got, _ := one.Form(shared); got != "" {
		t.Errorf("after its time it is still %q", got)
	}
}

// TestOnlyWhatAnInboxAcceptedInTheFormItRefusesSpeaksForItsHost: nothing that it accepted in another
// form, and nothing that another inbox accepted.
func TestOnlyWhatAnInboxAcceptedInTheFormItRefusesSpeaksForItsHost(t *testing.T) {
	for name, c := range map[string]struct {
		inbox, form, want string
	}{
		"it had accepted that form":     {"/u/inbox", "cavage", "rfc9421"},
		"it had accepted another":       {"/u/inbox", "rfc9421", ""},
		"another inbox had, and it not": {"/v/inbox", "cavage", ""},
	} {
		w := world.New(t, world.Options{})
		hosts, until := process(w), w.Clock.Now().Add(time.Hour)
		hosts.TookForm(at(c.inbox), "", c.form, until)
		for range 2 {
			hosts.TookForm(at("/u/inbox"), "cavage", "rfc9421", until)
			w.Clock.Advance(time.Minute)
		}
		if got, _ := hosts.Form(at("/other/inbox")); got != c.want {
			t.Errorf("%s: others are asked in form %q, want %q", name, got, c.want)
		}
		if got, _ := hosts.Form(at("/u/inbox")); got != "rfc9421" {
			t.Errorf("%s: it is itself asked in form %q", name, got)
		}
	}
}

// TestWhatSeveralInboxesTakeIsSavedAtOnce: the lesson of one does not replace that of another.
func TestWhatSeveralInboxesTakeIsSavedAtOnce(t *testing.T) {
	w := world.New(t, world.Options{})
	hosts := process(w)
	for range 2 {
		for i := range 40 {
			hosts.TookForm(at(fmt.Sprint("/", i)), "cavage", "rfc9421", w.Clock.Now().Add(time.Hour))
		}
		w.Clock.Advance(time.Minute)
	}
	if err := hosts.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, err := w.Store.Servers(t.Context(), "host:strict.example")
	n := 0
	for i := range 40 {
		if found["host:strict.example"].FormOf(at(fmt.Sprint("/", i)).Inbox, w.Clock.Now()) != "" {
			n++
		}
	}
	if n != 32 || err != nil {
		t.Errorf("stored are the forms of %d inboxes, want 32: %v", n, err)
	}
}
