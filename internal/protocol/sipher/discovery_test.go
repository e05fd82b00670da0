package sipher_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/testkit/sipherpeer"
)

func TestUnknownServerIsDiscoveredRegisteredWithAndDeliveredTo(t *testing.T) {
	b := newBed(t)
	// B confirms our registration by asking us back, as real servers do.
	b.b.Discover(sipherpeer.Discovery{CallBack: true})
	accepted.check(t, b.attempt(followJob(), 1))
	sequence := []string{"GET /discover", "POST /discover", "POST " + sipherpeer.FollowsPath}
	if got := b.b.Sequence(); !slices.Equal(got, sequence) {
		t.Errorf("B saw %v", got)
	}
	if p, e, ok := b.b.Knows(ourURL); !ok || p != b.a.PublicKey() || e != b.a.EncryptionKey() {
		t.Error("B does not know us")
	}
	s := b.server(urlB)
	if s.PublicKey != b.b.PublicKey() || s.EncryptionKey != b.b.EncryptionKey() || !s.IsHealthy || s.Stranger ||
		!s.LastSeen.Equal(b.Now()) || !s.CreatedAt.Equal(b.Now()) || !s.UpdatedAt.Equal(b.Now()) {
		t.Errorf("the server is %+v, want healthy, no stranger, with the keys of B and seen now", s)
	}
	delivered.check(t, b.attempt(postJob(), 1))
	if got := b.b.Sequence(); len(got) != 4 {
		t.Errorf("discovered again: %v", got)
	}
}

func TestRefusedRegistrationIsNotFatal(t *testing.T) {
	b := newBed(t)
	b.b.Know(ourURL, b.a.PublicKey(), b.a.EncryptionKey())
	b.b.Discover(sipherpeer.Discovery{RefuseRegistration: true})
	delivered.check(t, b.attempt(postJob(), 1))
	if len(b.logged("sipher server did not register us; it may refuse our deliveries")) != 1 {
		t.Error("nothing is logged")
	}
}

func TestServerIsRegisteredUnderTheURLItWasAskedBy(t *testing.T) {
	b := newBed(t)
	card := `{"url":"https://evil.example","publicKey":"` + strings.TrimRight(b.b.PublicKey(), "=") + `","encryptionPublicKey":"` + b.b.EncryptionKey() + `","peers":[]}`
	b.b.Discover(sipherpeer.Discovery{Body: card})
	b.attempt(postJob(), 1)
	if s := b.server(urlB); s.PublicKey != b.b.PublicKey() {
		t.Errorf("key is not written strictly: %s", s.PublicKey)
	}
	if _, err := b.store.Server(t.Context(), "https://evil.example"); !errors.Is(err, peers.ErrUnknown) {
		t.Errorf("registered under its own claim: %v", err)
	}
}

func TestConcurrentJobsDiscoverAServerOnce(t *testing.T) {
	b := newBed(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { b.proto.Attempt(t.Context(), postJob(), target(postJob()), 1) })
	}
	wg.Wait()
	discoveries := 0
	for _, s := range b.b.Sequence() {
		if s == "GET /discover" {
			discoveries++
		}
	}
	// A flight that has ended before another began is not shared.
	if discoveries > 3 || len(b.b.Deliveries()) != 20 {
		t.Errorf("%d discoveries, %d deliveries", discoveries, len(b.b.Deliveries()))
	}
}

func TestChangedKeysAreRefusedRecordedAndShown(t *testing.T) {
	b := newBed(t)
	b.acquainted(b.b)
	pinned := b.server(urlB)
	b.b.Rotate(t)

	// It registers anew.
	status, body, err := b.b.RegisterWith(ourURL)
	if err != nil || status != 400 || !strings.Contains(body, "another key") {
		t.Errorf("%d %s, %v", status, body, err)
	}
	b.advance(time.Minute)
	if _, _, err = b.b.RegisterWith(ourURL); err != nil {
		t.Error(err)
	}
	if got := b.server(urlB); got != pinned {
		t.Errorf("the record has changed: %+v", got)
	}
	got, err := b.store.KeyChanges(t.Context())
	if err != nil || len(got) != 1 || got[0].URL != urlB || got[0].PublicKey != b.b.PublicKey() ||
		got[0].EncryptionKey != b.b.EncryptionKey() || got[0].Via != peers.Registered || got[0].Count != 2 ||
		!got[0].Last.Equal(b.Now()) || got[0].First.Equal(got[0].Last) {
		t.Errorf("key changes %+v, error %v; want one of B, registered twice", got, err)
	}
	lines := b.logged("sipher server presents a new key and is refused")
	if len(lines) != 2 || !strings.Contains(lines[0]["error"].(string), crypto.Fingerprint(b.b.PublicKey())[:16]) {
		t.Errorf("logged %v, want two lines with the fingerprint of B's key", lines)
	}

	// Its deliveries still go to the pinned key, which it cannot open.
	o := b.attempt(followJob(), 1)
	if o.Class != outcome.Retry || o.Status != 400 {
		t.Errorf("the outcome is %+v, want a retry after 400", o)
	}
}

func TestDiscoveryOfAServerRegisteredMeanwhileWithAnotherKeyIsRefused(t *testing.T) {
	b := newBed(t)
	// Between our look at the registry and the answer of B, B is registered.
	late := &lateServer{outage: outage{Store: b.store}, insert: func() {
		b.insert(b.b, func(s *peers.Server) { s.PublicKey = b.p.PublicKey() })
	}}
	o := sipherWith(b, late).Attempt(t.Context(), postJob(), target(postJob()), 1)
	want{class: outcome.Retry, unattempted: true, tried: true, says: "another key"}.check(t, o)
	got, err := b.store.KeyChanges(t.Context())
	if err != nil || len(got) != 1 || got[0].Via != peers.Discovered {
		t.Errorf("key changes %+v, error %v; want one that was discovered", got, err)
	}
	if s := b.server(urlB); s.PublicKey != b.p.PublicKey() {
		t.Error("the key was changed")
	}
	if got := b.b.Sequence(); !slices.Equal(got, []string{"GET /discover"}) {
		t.Errorf("B saw %v", got)
	}
}

func TestServerThatRefusesAndDidNotRegisterUsIsAskedAgain(t *testing.T) {
	b := newBed(t)
	// While we are discovered first, B cannot call us back.
	b.b.Discover(sipherpeer.Discovery{CallBack: true})
	b.net.Fail(ourURL, dialError(errRefused))
	if o := b.attempt(postJob(), 1); o.Class != outcome.Retry || o.Status != 400 {
		t.Fatalf("the outcome is %+v, want a retry after 400", o)
	}
	if !b.server(urlB).Unannounced {
		t.Error("not noted")
	}
	b.net.Serve(ourURL, http.HandlerFunc(b.proto.Discover))
	want{class: outcome.Retry, says: "400"}.check(t, b.attempt(postJob(), 2))
	if b.server(urlB).Unannounced {
		t.Error("still noted")
	}
	delivered.check(t, b.attempt(postJob(), 3))
	discover, register, deliver := "GET /discover", "POST /discover", "POST "+sipherpeer.PostsPath
	if got := b.b.Sequence(); !slices.Equal(got, []string{discover, register, deliver, register, deliver, register, deliver}) {
		t.Errorf("B saw %v", got)
	}
}

// TestAServerWhoseRecordWasWrittenBeforeItRegisteredUsIsAskedAgain: a process that ends
// between its write of the record and its request to register us, or that never gets the
// answer to that write, leaves a server that is known and refuses every delivery.
func TestAServerWhoseRecordWasWrittenBeforeItRegisteredUsIsAskedAgain(t *testing.T) {
	b := newBed(t)
	lost := &lostInsert{Store: b.store}
	o := sipherWith(b, lost).Attempt(t.Context(), postJob(), target(postJob()), 1)
	want{class: outcome.Retry, unattempted: true, says: "lost"}.check(t, o)
	if !b.server(urlB).Unannounced {
		t.Error("the record says that B has registered us")
	}
	want{class: outcome.Retry, says: "400"}.check(t, b.attempt(postJob(), 1))
	delivered.check(t, b.attempt(postJob(), 2))
	if b.server(urlB).Unannounced {
		t.Error("the record says that B has not registered us")
	}
}

// lostInsert is a storage that inserts a server, and whose answer is lost.
type lostInsert struct{ sipher.Store }

func (l lostInsert) Insert(ctx context.Context, s peers.Server) (peers.Server, bool, error) {
	_, _, err := l.Store.Insert(ctx, s)
	return peers.Server{}, false, cmp.Or(err, errors.New("the answer is lost"))
}

// TestAServerWhoseKeysTheOperatorPinnedIsAskedToRegisterUs: it may never have heard of us, or
// have lost its registry with its keys.
func TestAServerWhoseKeysTheOperatorPinnedIsAskedToRegisterUs(t *testing.T) {
	b := newBed(t)
	if err := b.store.SetKeys(t.Context(), urlB, b.b.PublicKey(), b.b.EncryptionKey(), b.Now()); err != nil {
		t.Fatal(err)
	}
	want{class: outcome.Retry, says: "400"}.check(t, b.attempt(postJob(), 1))
	delivered.check(t, b.attempt(postJob(), 2))
}

// Anybody can register any number of servers and change their keys: with one domain 7,000 a
// day, and each record would stay for 90 days.
func TestAStrangerThatChangesItsKeysLeavesNoRecord(t *testing.T) {
	b := newBed(t)
	if status, body, err := b.b.RegisterWith(ourURL); err != nil || status != 200 || !b.server(urlB).Stranger {
		t.Fatalf("%d %s, %v: %+v", status, body, err, b.server(urlB))
	}
	pinned := b.server(urlB)
	b.advance(2 * time.Minute)
	b.b.Rotate(t)
	if status, body, err := b.b.RegisterWith(ourURL); err != nil || status != 400 || !strings.Contains(body, "another key") {
		t.Errorf("%d %s, %v", status, body, err)
	}
	if got := b.server(urlB); got != pinned {
		t.Errorf("the record has changed: %+v", got)
	}
	if got, err := b.store.KeyChanges(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("recorded: %+v, %v", got, err)
	}
	if lines := b.logged("sipher server presents a new key and is refused"); len(lines) != 1 {
		t.Errorf("logged %v, want one line", lines)
	}
}
