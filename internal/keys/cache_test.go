package keys_test

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/keys"
)

func TestAReplacedKeyIsUsedAtOnce(t *testing.T) {
	w := newWorld(t, keys.Options{})
	for range 2 {
		r := rsaKey(t, 2048)
		if _, err := w.ring.Put(t.Context(), id, pkcs8(t, r)); err != nil {
			t.Fatal(err)
		}
		signer, err := w.ring.SigningKey(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		verify(t, signer, r.Public())
	}
}

// TestAKeyReplacedElsewhereIsNoticedWithinSeconds: two processes have a ring
// each, on one store.
func TestAKeyReplacedElsewhereIsNoticedWithinSeconds(t *testing.T) {
	w := newWorld(t, keys.Options{})
	other := keys.New(w.shelf, w.sealer, keys.Options{Now: func() time.Time { return w.clock }})
	replace := func() crypto.PublicKey {
		t.Helper()
		_, e, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Put(t.Context(), id, pkcs8(t, e)); err != nil {
			t.Fatal(err)
		}
		return e.Public()
	}
	use := func(want crypto.PublicKey) {
		t.Helper()
		signer, err := w.ring.SigningKey(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		verify(t, signer, want)
	}
	use(replace())
	second := replace()
	w.clock = w.clock.Add(5 * time.Second)
	use(second)

	third := replace()
	w.ring.Doubt(id) // after a 401
	use(third)

	reads := w.shelf.reads
	for range 100 {
		w.clock = w.clock.Add(100 * time.Millisecond)
		use(third)
	}
	if n := w.shelf.reads - reads; n > 3 {
		t.Errorf("%d reads in 10 seconds of use", n)
	}

	// While the store cannot be reached, the cached key is used until its time is over.
	w.shelf.err = errors.New("table is away")
	w.clock = w.clock.Add(time.Minute)
	use(third)
	w.clock = w.clock.Add(5 * time.Minute)
	if _, err := w.ring.SigningKey(t.Context(), id); !errors.Is(err, w.shelf.err) {
		t.Errorf("held for longer than CacheTTL: %v", err)
	}
	w.shelf.err = nil
	use(third)

	// A key that was removed is not used.
	delete(w.shelf.keys, id)
	w.clock = w.clock.Add(5 * time.Second)
	if _, err := w.ring.SigningKey(t.Context(), id); !errors.Is(err, keys.ErrNotFound) {
		t.Errorf("a removed key: %v", err)
	}
	w.ring.Doubt("unknown")
}

// TestAReplacedKeyIsNoticedWithinSecondsThoughTheClockWasSetBack: a key that was read an hour
// ahead is not trusted for an hour.
func TestAReplacedKeyIsNoticedWithinSecondsThoughTheClockWasSetBack(t *testing.T) {
	w := newWorld(t, keys.Options{})
	other := keys.New(w.shelf, w.sealer, keys.Options{Now: func() time.Time { return w.clock }})
	for range 2 {
		_, e, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Put(t.Context(), id, pkcs8(t, e)); err != nil {
			t.Fatal(err)
		}
		signer, err := w.ring.SigningKey(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		verify(t, signer, e.Public())
		w.clock = w.clock.Add(-time.Hour)
	}
}

// TestAKeyReplacedWhileTheOldOneIsOpenedIsNotCached: a reader that is slower
// than the writer must not leave the old key behind.
func TestAKeyReplacedWhileTheOldOneIsOpenedIsNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, keys.Options{})
		if _, err := w.ring.Generate(t.Context(), id, keys.Ed25519); err != nil {
			t.Fatal(err)
		}
		old := w.shelf.keys[id]
		w.shelf.gate, w.shelf.slow = make(chan struct{}), &old
		go func() {
			if _, err := w.ring.SigningKey(t.Context(), id); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait() // it has read the old key
		r := rsaKey(t, 2048)
		if _, err := w.ring.Put(t.Context(), id, pkcs8(t, r)); err != nil {
			t.Fatal(err)
		}
		close(w.shelf.gate)
		synctest.Wait()
		w.shelf.slow = nil
		signer, err := w.ring.SigningKey(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		verify(t, signer, r.Public())
	})
}

func TestOpenedKeysAreHeldInMemoryWithinBounds(t *testing.T) {
	w := newWorld(t, keys.Options{CacheSize: 2, CacheTTL: time.Minute})
	for _, id := range []string{"a", "b", "c"} {
		if _, err := w.ring.Generate(t.Context(), id, keys.Ed25519); err != nil {
			t.Fatal(err)
		}
	}
	use := func(id string, reads int) {
		t.Helper()
		before := w.shelf.reads
		if _, err := w.ring.SigningKey(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if got := w.shelf.reads - before; got != reads {
			t.Errorf("key %s cost %d reads, want %d", id, got, reads)
		}
	}
	use("a", 1)
	use("a", 0)
	use("b", 1)
	use("a", 0)
	use("c", 1) // b leaves: used longest ago
	use("a", 0)
	use("b", 1)
	w.clock = w.clock.Add(time.Minute)
	use("b", 1)
}

func TestConcurrentUseOpensAKeyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, keys.Options{})
		if _, err := w.ring.Generate(t.Context(), id, keys.Ed25519); err != nil {
			t.Fatal(err)
		}
		w.shelf.gate = make(chan struct{})
		for range 20 {
			go func() {
				if _, err := w.ring.SigningKey(t.Context(), id); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		close(w.shelf.gate)
		synctest.Wait()
		if w.shelf.reads != 1 {
			t.Errorf("%d reads", w.shelf.reads)
		}
	})
}

func TestOneCallersCancellationIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, keys.Options{})
		if _, err := w.ring.Generate(t.Context(), id, keys.Ed25519); err != nil {
			t.Fatal(err)
		}
		w.shelf.gate = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { _, err := w.ring.SigningKey(ctx, id); first <- err }()
		synctest.Wait()
		go func() { _, err := w.ring.SigningKey(t.Context(), id); second <- err }()
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the cancelled caller got %v", err)
		}
		close(w.shelf.gate)
		if err := <-second; err != nil || w.shelf.reads != 1 {
			t.Errorf("the other caller got %v after %d reads", err, w.shelf.reads)
		}
	})
}
