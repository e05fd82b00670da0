package storetest

import (
	"errors"
	"sync"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/store"
)

var markers = group{"markers", []testCase{
	{"OneOfManyReservesAndTheOthersFindIt", func(b *bed) {
		key := "markers/" + string(b.newID())
		var mu sync.Mutex
		won := map[string]bool{}
		foundTokens := map[string]int{}
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				m := b.marker(dedup.Pending)
				found, err := b.ReserveMarker(b.ctx, key, m)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					b.t.Error(err)
				case found == nil:
					won[m.Token] = true
				default:
					foundTokens[found.Token]++
				}
			})
		}
		wg.Wait()
		if len(won) != 1 || len(foundTokens) != 1 {
			b.t.Fatalf("%d won, the others found %v", len(won), foundTokens)
		}
		for token := range won {
			if foundTokens[token] != 15 {
				b.t.Errorf("found %v, the winner is %s", foundTokens, token)
			}
		}
	}},
	{"AMarkerComesBackAsItWasWritten", func(b *bed) {
		key, m := "markers/"+string(b.newID()), b.marker(dedup.Sent)
		if found, err := b.FindMarker(b.ctx, key); found != nil || err != nil {
			b.t.Errorf("before it was written: %+v, %v", found, err)
		}
		b.reserve(key, m, nil)
		if found, err := b.FindMarker(b.ctx, key); err != nil || found == nil || found.Token != m.Token || found.ID != m.ID || !found.Expires.Equal(m.Expires) {
			b.t.Errorf("found %+v, %v, want %+v", found, err, m)
		}
		b.reserve(key, b.marker(dedup.Pending), &m)
	}},
	{"AnExpiredMarkerIsAsGoodAsNone", func(b *bed) {
		key, m := "markers/"+string(b.newID()), b.marker(dedup.Sent)
		b.reserve(key, m, nil)
		b.advance(m.Expires.Sub(b.Now()) - time.Second)
		b.reserve(key, b.marker(dedup.Pending), &m)
		b.advance(time.Second)
		next := b.marker(dedup.Pending)
		b.reserve(key, next, nil)
		b.reserve(key, b.marker(dedup.Pending), &next)
	}},
	{"ReplacingAndReleasingNeedTheToken", func(b *bed) {
		key, first, second := "markers/"+string(b.newID()), b.marker(dedup.Pending), b.marker(dedup.Pending)
		b.lost(b.ReplaceMarker(b.ctx, key, first.Token, second))
		b.lost(b.ReleaseMarker(b.ctx, key, first.Token))
		b.reserve(key, first, nil)
		b.lost(b.ReplaceMarker(b.ctx, key, "another", second))
		b.lost(b.ReleaseMarker(b.ctx, key, "another"))
		b.must(b.ReplaceMarker(b.ctx, key, first.Token, second))
		b.lost(b.ReplaceMarker(b.ctx, key, first.Token, b.marker(dedup.Sent)))
		b.lost(b.ReleaseMarker(b.ctx, key, first.Token))
		sent := second
		sent.State = dedup.Sent
		b.must(b.ReplaceMarker(b.ctx, key, second.Token, sent))
		b.reserve(key, b.marker(dedup.Pending), &sent)
		b.must(b.ReleaseMarker(b.ctx, key, second.Token))
		b.lost(b.ReleaseMarker(b.ctx, key, second.Token))
		b.reserve(key, first, nil)
	}},
	{"AWriteThatIsRepeatedFindsItselfAndHasSucceeded", func(b *bed) {
		for _, tells := range []bool{true, false} {
			st := store.New(echo{b.table, tells}, b.Now)
			key, first, second := "markers/"+string(b.newID()), b.marker(dedup.Pending), b.marker(dedup.Pending)
			if found, err := st.ReserveMarker(b.ctx, key, first); found != nil || err != nil {
				b.t.Errorf("reserve: found %v, %v", found, err)
			}
			b.must(st.ReplaceMarker(b.ctx, key, first.Token, second))
		}
	}},
	{"MarkersOfDifferentKeysAreApart", property(func(b *bed, rt *rapid.T) {
		one, other := b.marker(dedup.Sent), b.marker(dedup.Sent)
		key := "markers/" + string(b.newID())
		suffix := rapid.StringMatching(`[a-zA-Z0-9_/#-]{1,40}`).Draw(rt, "suffix")
		b.reserve(key, one, nil)
		b.reserve(key+suffix, other, nil)
		b.reserve(key, b.marker(dedup.Pending), &one)
		b.reserve(key+suffix, b.marker(dedup.Pending), &other)
	})},
}}

// marker makes a marker of its own.
func (b *bed) marker(s dedup.State) dedup.Marker {
	return dedup.Marker{
		State: s, Token: "token of " + string(b.newID()), ID: b.newID(), At: b.Now(),
		LeaseUntil: b.in(30 * time.Second), Fingerprint: "fingerprint", Expires: b.in(time.Hour),
	}
}

// reserve tries m and checks what it finds in its way.
func (b *bed) reserve(key string, m dedup.Marker, want *dedup.Marker) {
	b.t.Helper()
	found, err := b.ReserveMarker(b.ctx, key, m)
	switch {
	case err != nil:
		b.t.Fatal(err)
	case (found == nil) != (want == nil):
		b.t.Fatalf("found %+v, want %+v", found, want)
	case want == nil:
		return
	}
	if !found.LeaseUntil.Equal(want.LeaseUntil) || !found.Expires.Equal(want.Expires) || !found.At.Equal(want.At) {
		b.t.Errorf("times of %+v, want %+v", *found, *want)
	}
	found.LeaseUntil, found.Expires, found.At = want.LeaseUntil, want.Expires, want.At
	if *found != *want {
		b.t.Errorf("found %+v, want %+v", *found, *want)
	}
}

func (b *bed) lost(err error) {
	b.t.Helper()
	if !errors.Is(err, dedup.ErrLost) {
		b.t.Errorf("got %v, want %v", err, dedup.ErrLost)
	}
}
