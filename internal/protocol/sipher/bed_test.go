package sipher_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/follow"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/store"
	"fedpost/internal/testkit/memory"
	"fedpost/internal/testkit/sipherpeer"
)

const (
	ourURL = "https://a.example"
	urlB   = "https://b.example"
	urlP   = "https://p.example"
)

// bed is a server of ours with a target B and a proxy P on one network.
type bed struct {
	t     testing.TB
	a     *sipherpeer.Peer // whose keys we have
	b, p  *sipherpeer.Peer
	net   *sipherpeer.Network
	store sipher.Store
	proto *sipher.Protocol
	log   *sipherpeer.Log

	mu  sync.Mutex
	now time.Time
}

// option changes how the bed is made.
type option func(*sipher.Config)

func newBed(t testing.TB, opts ...option) *bed {
	t.Helper()
	return newBedOf(t, peersFor(t), opts...)
}

// threePeers are us, the target and the proxy.
type threePeers struct{ a, b, p *sipherpeer.Peer }

func peersFor(t testing.TB) threePeers {
	t.Helper()
	return threePeers{sipherpeer.Start(t, ourURL), sipherpeer.Start(t, urlB), sipherpeer.Start(t, urlP)}
}

// inFakeTime runs a test in a bubble of fake time. Its peers are started
// outside, as a listening socket keeps time from passing, so that in the bubble
// they can be cut off or hang, not answer.
func inFakeTime(t *testing.T, test func(t *testing.T, b *bed)) {
	t.Helper()
	ps := peersFor(t)
	synctest.Test(t, func(t *testing.T) { test(t, newBedOf(t, ps)) })
}

func newBedOf(t testing.TB, ps threePeers, opts ...option) *bed {
	t.Helper()
	b := &bed{
		t: t, a: ps.a, b: ps.b, p: ps.p,
		log: &sipherpeer.Log{}, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
	}
	b.net = sipherpeer.NewNetwork(b.b, b.p)
	for _, p := range []*sipherpeer.Peer{b.a, b.b, b.p} {
		p.Through(b.net)
	}
	client, err := outbound.New(outbound.Config{UserAgent: "fedpost/test", Transport: b.net})
	if err != nil {
		t.Fatal(err)
	}
	c := sipher.Config{
		Identity: b.identity(), HTTP: client, Now: b.Now, Store: openStore(b.Now),
		Log: slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, o := range opts {
		o(&c)
	}
	b.store, b.proto = c.Store, sipher.New(c)
	b.net.Serve(ourURL, http.HandlerFunc(b.proto.Discover))
	return b
}

func openStore(now func() time.Time) sipher.Store {
	return store.New(memory.New(now, nil).Table(), now).Sipher()
}

func (b *bed) identity() crypto.Identity {
	b.t.Helper()
	env := b.a.Settings()
	id, err := crypto.LoadIdentity(func(name string) string { return env[name] })
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

// Now is the bed's clock.
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

// acquainted registers us and a peer with each other.
func (b *bed) acquainted(p *sipherpeer.Peer) {
	b.t.Helper()
	p.Know(ourURL, b.a.PublicKey(), b.a.EncryptionKey())
	b.insert(p, func(*peers.Server) {})
}

func (b *bed) insert(p *sipherpeer.Peer, change func(*peers.Server)) {
	b.t.Helper()
	s := peers.Server{
		URL: p.URL, PublicKey: p.PublicKey(), EncryptionKey: p.EncryptionKey(),
		LastSeen: b.Now(), CreatedAt: b.Now(), UpdatedAt: b.Now(), IsHealthy: true,
	}
	change(&s)
	if _, inserted, err := b.store.Insert(b.t.Context(), s); err != nil || !inserted {
		b.t.Fatalf("insert %s: %v, %v", s.URL, inserted, err)
	}
}

func (b *bed) server(url string) peers.Server {
	b.t.Helper()
	s, err := b.store.Server(b.t.Context(), url)
	if err != nil {
		b.t.Fatalf("%s: %v", url, err)
	}
	return s
}

// job makes an activity of a payload for B.
func job(name, payload string) activity.Activity {
	return activity.Activity{ID: "01JOB", Protocol: activity.Sipher, Options: activity.Options{Job: name, ServerURL: urlB}, Body: payload}
}

// Payloads as servers write them. The white space and the spelling of the
// escapes have to arrive as they are.
const (
	followPayload = `{"following":{"id":"f1","followerId":"alice","followingId":"bob","accepted":false,"createdAt":"2026-05-06T14:17:40.000Z","followerServerUrl":"https://b.example","followingServerUrl":null,"acknowledged":false}, "federationUrl":"https://a.example","method":"FEDERATE"}`
	postPayload   = `{"method":"FEDERATE_POST","federationUrl":"https://a.example","post":{"id":"p1","content":[{"type":"text","value":"<b>caf\u00e9</b> & Tee ☕"}],"authorId":"alice","published":"2026-05-06T14:17:40.000Z","isPrivate":false}}`
)

func followJob() activity.Activity { return job("deliver-follow", followPayload) }
func postJob() activity.Activity   { return job("deliver-post", postPayload) }

func target(a activity.Activity) activity.Target {
	path := sipherpeer.PostsPath
	if strings.Contains(a.Body, `"FEDERATE"`) {
		path = sipherpeer.FollowsPath
	}
	return activity.Target{Inbox: urlB + path, Stands: 1}
}

// attempt makes the n-th attempt, having recorded the follow as enqueueing does.
func (b *bed) attempt(a activity.Activity, n int) outcome.Outcome {
	b.t.Helper()
	return b.attemptWith(b.t.Context(), a, n)
}

func (b *bed) attemptWith(ctx context.Context, a activity.Activity, n int) outcome.Outcome {
	b.t.Helper()
	if err := b.proto.Record(b.t.Context(), a, activity.Target{}); err != nil {
		b.t.Fatal(err)
	}
	return b.proto.Attempt(ctx, a, target(a), n)
}

func (b *bed) follows() []follow.Follow {
	b.t.Helper()
	fs, next, err := b.store.Follows(b.t.Context(), "", 100)
	if err != nil || next != "" {
		b.t.Fatalf("error %v, cursor %q; want all follows on one page", err, next)
	}
	return fs
}

// want compares what matters of an outcome.
type want struct {
	class       outcome.Class
	unattempted bool
	tried       bool // although unattempted
	discard     bool
	says        string // in the error
	note        string
}

func (w want) check(t testing.TB, o outcome.Outcome) {
	t.Helper()
	if o.Class != w.class || (o.Try != outcome.Made) != w.unattempted || (o.Try == outcome.Unsent) != w.tried || o.Discard != w.discard {
		t.Errorf("class %s, unattempted %v, tried %v, discard %v; want %s, %v, %v, %v (%s)",
			o.Class, o.Try != outcome.Made, o.Try == outcome.Unsent, o.Discard, w.class, w.unattempted, w.tried, w.discard, o.Err)
	}
	if !strings.Contains(o.Err, w.says) {
		t.Errorf("error %q does not say %q", o.Err, w.says)
	}
	if delivered := o.Class == outcome.Delivered; delivered && o.Err != "" || !delivered && o.Err == "" {
		t.Errorf("class %s has error %q; all but delivered have one", o.Class, o.Err)
	}
	if !strings.Contains(o.Note, w.note) || w.note == "" && o.Note != "" {
		t.Errorf("note %q, want %q", o.Note, w.note)
	}
}

// logged returns the log's lines with a message.
func (b *bed) logged(message string) []map[string]any {
	b.t.Helper()
	return b.log.Lines(b.t, message)
}

func policies(t testing.TB, overrides string) option {
	t.Helper()
	p, err := peers.ParsePolicies(overrides)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *sipher.Config) { c.Policies = &p }
}

func limited(l *peers.RateLimit) option { return func(c *sipher.Config) { c.Limiter = l } }

var _ http.RoundTripper = (*sipherpeer.Network)(nil)
