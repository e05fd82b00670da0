// Package siphertest is the contract of the Sipher protocol's storage as a
// suite, for every engine to run: exact comparison of URLs, changes that lose
// nothing to one another, and a schedule on which duplicates coalesce.
//
// A new case is a method of bed, which is the storage with a clock moved by hand, and a row of
// Run. Its servers are b.url("a"), b.url("b"), …; b.settle() waits until an index has caught up.
package siphertest

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/internal/protocol/sipher"
)

// Open returns the storage of one test, whose clock is now, and a function that
// waits until an index has caught up with writes, or nil if none lags. The
// storage may be shared with other tests: the suite's names are random.
type Open func(t *testing.T, now func() time.Time) (s sipher.Store, settle func())

// Run tests the storage that open returns.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(*bed)
	}{
		{"RegistryComparesURLsExactly", (*bed).testRegistryComparesURLsExactly},
		{"UpsertOfAKnownServerChangesOnlyLastSeenAndUpdatedAt", (*bed).testUpsertOfAKnownServerChangesOnlyLastSeenAndUpdatedAt},
		{"MarkingAServerUnhealthyAndHealthy", (*bed).testMarkingAServerUnhealthyAndHealthy},
		{"TriesOfAServerThatHangsAreReservedOneByOne", (*bed).testTriesOfAServerThatHangsAreReservedOneByOne},
		{"ConcurrentRunsLoseNoIncrement", (*bed).testConcurrentRunsLoseNoIncrement},
		{"ChangesOfUnknownServersAreRefused", (*bed).testChangesOfUnknownServersAreRefused},
		{"StrangersLapseAndFriendsStay", (*bed).testStrangersLapseAndFriendsStay},
		{"OnlyStrangersAreForgotten", (*bed).testOnlyStrangersAreForgotten},
		{"RefusedKeysAreRecordedUntilTheOperatorPinsNewOnes", (*bed).testRefusedKeysAreRecordedUntilTheOperatorPinsNewOnes},
		{"BlockListComparesURLsExactly", (*bed).testBlockListComparesURLsExactly},
		{"AcknowledgementsChangeOneFieldOfOneFollow", (*bed).testAcknowledgementsChangeOneFieldOfOneFollow},
		{"FollowsArePagedWithoutLossOrRepetition", (*bed).testFollowsArePagedWithoutLossOrRepetition},
		{"DuplicateSchedulesCoalesce", (*bed).testDuplicateSchedulesCoalesce},
		{"AHastenedCheckIsDueAtOnceAndOnce", (*bed).testAHastenedCheckIsDueAtOnceAndOnce},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(newBed(t, open)) })
	}
}

// bed is a storage under test with a clock that is moved by hand.
type bed struct {
	sipher.Store
	t      *testing.T
	ctx    context.Context
	settle func()
	suffix string

	mu  sync.Mutex
	now time.Time
}

func newBed(t *testing.T, open Open) *bed {
	// Whole seconds, which is what every engine can keep of an expiry.
	b := &bed{
		t: t, ctx: t.Context(), settle: func() {},
		suffix: strings.ToLower(rand.Text()), now: time.Now().UTC().Truncate(time.Second),
	}
	store, settle := open(t, b.Now)
	b.Store = store
	if settle != nil {
		b.settle = settle
	}
	return b
}

// Now is the test's clock.
func (b *bed) Now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bed) advance(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func (b *bed) in(d time.Duration) time.Time { return b.Now().Add(d) }

// url returns the URL of a server that no other test has.
func (b *bed) url(name string) string { return "https://" + name + "." + b.suffix + ".example" }
