package siphertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"fedpost/internal/protocol/sipher/peers"
)

func peer(url string, at time.Time) peers.Server {
	return peers.Server{URL: url, PublicKey: "p", EncryptionKey: "e", LastSeen: at, CreatedAt: at, UpdatedAt: at, IsHealthy: true}
}

func (b *bed) insert(r peers.Server) {
	b.t.Helper()
	if _, inserted, err := b.Insert(b.ctx, r); err != nil || !inserted {
		b.t.Fatalf("insert %s: %v, %v", r.URL, inserted, err)
	}
}

func (b *bed) testRegistryComparesURLsExactly() {
	own := b.url("b")
	long := own + "/" + strings.Repeat("x", 220)
	spellings := []string{own, own + "/", strings.ToUpper(own), strings.Replace(own, "https", "http", 1), own + ":443", long, long + "/"}
	for _, url := range spellings {
		if _, err := b.Server(b.ctx, url); !errors.Is(err, peers.ErrUnknown) {
			b.t.Errorf("%s before it was inserted: %v", url, err)
		}
		b.insert(peer(url, b.Now()))
		got, err := b.Server(b.ctx, url)
		if d := cmp.Diff(peer(url, b.Now()), got); err != nil || d != "" {
			b.t.Errorf("%v\n%s", err, d)
		}
	}
	all, err := b.Servers(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, s := range all {
		listed[s.URL] = true
	}
	for _, url := range spellings {
		if !listed[url] {
			b.t.Errorf("%s is not listed", url)
		}
	}
}

func (b *bed) testUpsertOfAKnownServerChangesOnlyLastSeenAndUpdatedAt() {
	first := b.Now()
	b.insert(peer(b.url("b"), first))
	if err := b.MarkUnhealthy(b.ctx, b.url("b"), peers.TimedOut, first); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.CountCheck(b.ctx, b.url("b"), 5, first); err != nil {
		b.t.Fatal(err)
	}
	before, err := b.Server(b.ctx, b.url("b"))
	if err != nil {
		b.t.Fatal(err)
	}

	other := peer(b.url("b"), first.Add(time.Hour))
	other.PublicKey = "another"
	existing, inserted, err := b.Insert(b.ctx, other)
	if d := cmp.Diff(before, existing); inserted || err != nil || d != "" {
		b.t.Errorf("inserted over it: %v, %v\n%s", inserted, err, d)
	}
	b.advance(time.Hour)
	if err := b.Seen(b.ctx, b.url("b"), b.Now()); err != nil {
		b.t.Fatal(err)
	}
	want := before
	want.LastSeen, want.UpdatedAt = b.Now(), b.Now()
	got, err := b.Server(b.ctx, b.url("b"))
	if d := cmp.Diff(want, got); err != nil || d != "" {
		b.t.Errorf("%v\n%s", err, d)
	}
}

func (b *bed) testMarkingAServerUnhealthyAndHealthy() {
	want := peer(b.url("b"), b.Now())
	b.insert(want)
	for n := 1; n <= 3; n++ {
		if n == 3 {
			// A new error starts the count anew.
			if err := b.MarkUnhealthy(b.ctx, want.URL, peers.DNSBlocked, b.Now()); err != nil {
				b.t.Fatal(err)
			}
		}
		if n == 1 {
			if _, err := b.CountCheck(b.ctx, want.URL, 2, b.Now()); !errors.Is(err, peers.ErrHealthy) {
				b.t.Errorf("counted a check of a healthy server: %v", err)
			}
			if err := b.MarkUnhealthy(b.ctx, want.URL, peers.TimedOut, b.Now()); err != nil {
				b.t.Fatal(err)
			}
		}
		got, err := b.CountCheck(b.ctx, want.URL, 2, b.Now())
		if wantN := []int{0, 1, 2, 1}[n]; err != nil || got != wantN {
			b.t.Errorf("count %d, %v, want %d", got, err, wantN)
		}
		if s, err := b.Server(b.ctx, want.URL); err != nil || s.Exhausted != (got == 2) {
			b.t.Errorf("after check %d of 2: %+v, %v", got, s, err)
		}
	}
	want.IsHealthy, want.Reason, want.Attempts = false, peers.DNSBlocked, 1
	got, err := b.Server(b.ctx, want.URL)
	if d := cmp.Diff(want, got); err != nil || d != "" {
		b.t.Errorf("%v\n%s", err, d)
	}
	b.advance(time.Hour)
	if err := b.MarkHealthy(b.ctx, want.URL, b.Now()); err != nil {
		b.t.Fatal(err)
	}
	want.IsHealthy, want.Reason, want.Attempts, want.LastSeen, want.UpdatedAt = true, "", 0, b.Now(), b.Now()
	got, err = b.Server(b.ctx, want.URL)
	if d := cmp.Diff(want, got); err != nil || d != "" {
		b.t.Errorf("%v\n%s", err, d)
	}
}

func (b *bed) testConcurrentRunsLoseNoIncrement() {
	b.insert(peer(b.url("b"), b.Now()))
	if err := b.MarkUnhealthy(b.ctx, b.url("b"), peers.TimedOut, b.Now()); err != nil {
		b.t.Fatal(err)
	}
	const runs = 40
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		seen = map[int]bool{}
	)
	for range runs {
		wg.Go(func() {
			n, err := b.CountCheck(context.WithoutCancel(b.ctx), b.url("b"), 2, b.Now())
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[n] {
				b.t.Errorf("count %d a second time, %v", n, err)
			}
			seen[n] = true
		})
	}
	wg.Wait()
	if got, err := b.Server(b.ctx, b.url("b")); err != nil || got.Attempts != runs {
		b.t.Errorf("%d of %d increments, %v", got.Attempts, runs, err)
	}
}

func (b *bed) testChangesOfUnknownServersAreRefused() {
	_, count := b.CountCheck(b.ctx, b.url("b"), 2, b.Now())
	for name, err := range map[string]error{
		"Seen":      b.Seen(b.ctx, b.url("b"), b.Now()),
		"MakeKnown": b.MakeKnown(b.ctx, b.url("b")),
		"ForgetStranger (no error)": func() error {
			if err := b.ForgetStranger(b.ctx, b.url("b")); err != nil {
				return err
			}
			return peers.ErrUnknown
		}(),
		"Announce":      b.Announce(b.ctx, b.url("b"), true),
		"MarkUnhealthy": b.MarkUnhealthy(b.ctx, b.url("b"), peers.TimedOut, b.Now()),
		"MarkHealthy":   b.MarkHealthy(b.ctx, b.url("b"), b.Now()),
		"CountCheck":    count,
	} {
		if !errors.Is(err, peers.ErrUnknown) {
			b.t.Errorf("%s: %v", name, err)
		}
	}
}

func (b *bed) testStrangersLapseAndFriendsStay() {
	start := b.Now()
	for _, url := range []string{b.url("stranger"), b.url("seen"), b.url("friend")} {
		r := peer(url, start)
		r.Stranger = true
		b.insert(r)
	}
	b.advance(peers.Forget - time.Hour)
	if err := b.Seen(b.ctx, b.url("seen"), b.Now()); err != nil {
		b.t.Fatal(err)
	}
	if err := b.MakeKnown(b.ctx, b.url("friend")); err != nil {
		b.t.Fatal(err)
	}
	b.advance(time.Hour)
	if _, err := b.Server(b.ctx, b.url("stranger")); !errors.Is(err, peers.ErrUnknown) {
		b.t.Errorf("the stranger is still there: %v", err)
	}
	if _, err := b.Server(b.ctx, b.url("seen")); err != nil {
		b.t.Errorf("a stranger seen lately: %v", err)
	}
	b.advance(9 * peers.Forget)
	all, err := b.Servers(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, s := range all {
		listed[s.URL] = true
	}
	if listed[b.url("stranger")] || listed[b.url("seen")] || !listed[b.url("friend")] {
		b.t.Errorf("listed: %v", listed)
	}
	b.insert(peer(b.url("stranger"), b.Now())) // its place is free
}

func (b *bed) testOnlyStrangersAreForgotten() {
	stranger, known := peer(b.url("stranger"), b.Now()), peer(b.url("known"), b.Now())
	stranger.Stranger = true
	b.insert(stranger)
	b.insert(known)
	for _, url := range []string{stranger.URL, known.URL} {
		if err := b.ForgetStranger(b.ctx, url); err != nil {
			b.t.Fatal(err)
		}
	}
	if _, err := b.Server(b.ctx, stranger.URL); !errors.Is(err, peers.ErrUnknown) {
		b.t.Errorf("the stranger is still there: %v", err)
	}
	if _, err := b.Server(b.ctx, known.URL); err != nil {
		b.t.Errorf("a server we know: %v", err)
	}
}

func (b *bed) testRefusedKeysAreRecordedUntilTheOperatorPinsNewOnes() {
	start := b.Now()
	b.insert(peer(b.url("b"), start))
	for i := range 3 {
		at := start.Add(time.Duration(i) * time.Minute)
		c := peers.KeyChange{URL: b.url("b"), PublicKey: fmt.Sprint("k", i), EncryptionKey: "x", Via: peers.Registered, First: at, Last: at, Count: 1}
		if err := b.RecordKeyChange(b.ctx, c); err != nil {
			b.t.Fatal(err)
		}
	}
	want := []peers.KeyChange{{
		URL: b.url("b"), PublicKey: "k2", EncryptionKey: "x", Via: peers.Registered,
		First: start, Last: start.Add(2 * time.Minute), Count: 3,
	}}
	mine := func() ([]peers.KeyChange, error) {
		all, err := b.KeyChanges(b.ctx)
		return slices.DeleteFunc(all, func(c peers.KeyChange) bool { return c.URL != b.url("b") }), err
	}
	got, err := mine()
	if d := cmp.Diff(want, got); err != nil || d != "" {
		b.t.Errorf("%v\n%s", err, d)
	}
	if err := b.SetKeys(b.ctx, b.url("b"), "k2", "x", b.Now()); err != nil {
		b.t.Fatal(err)
	}
	if got, err := mine(); err != nil || len(got) != 0 {
		b.t.Errorf("got %v, error %v; want none", got, err)
	}
	if r, err := b.Server(b.ctx, b.url("b")); err != nil || r.PublicKey != "k2" || r.EncryptionKey != "x" || !r.CreatedAt.Equal(start) || !r.Unannounced {
		b.t.Errorf("the server is %+v, error %v; want the new keys, unannounced", r, err)
	}
	if err := b.SetKeys(b.ctx, b.url("new"), "k", "x", b.Now()); err != nil {
		b.t.Fatal(err)
	}
	if r, err := b.Server(b.ctx, b.url("new")); err != nil || !r.IsHealthy || r.PublicKey != "k" || !r.Unannounced {
		b.t.Errorf("the server is %+v, error %v; want healthy, unannounced, with its key", r, err)
	}
}

func (b *bed) testBlockListComparesURLsExactly() {
	want := peers.Block{ServerURL: b.url("b"), Reason: "spam", CreatedAt: b.Now()}
	if err := b.Block(b.ctx, want); err != nil {
		b.t.Fatal(err)
	}
	if got, err := b.Blocked(b.ctx, want.ServerURL); err != nil || got == nil || *got != want {
		b.t.Errorf("blocked: %v, error %v; want %v", got, err, want)
	}
	if got, err := b.Blocked(b.ctx, want.ServerURL+"/"); err != nil || got != nil {
		b.t.Errorf("another URL: %v, %v", got, err)
	}
	if got, err := b.Blocks(b.ctx); err != nil || !slices.Contains(got, want) {
		b.t.Errorf("blocks are %v, error %v; want %v among them", got, err, want)
	}
	for range 2 {
		if err := b.Unblock(b.ctx, want.ServerURL); err != nil {
			b.t.Fatal(err)
		}
	}
	if got, err := b.Blocked(b.ctx, want.ServerURL); err != nil || got != nil {
		b.t.Errorf("blocked: %v, error %v; want nothing", got, err)
	}
}
