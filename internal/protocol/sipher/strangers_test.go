package sipher_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/testkit/sipherpeer"
)

// reads counts how often the whole registry is read.
type reads struct {
	sipher.Store
	n atomic.Int32
}

func (r *reads) Servers(ctx context.Context) ([]peers.Server, error) {
	r.n.Add(1)
	return r.Store.Servers(ctx)
}

func (b *bed) counted() *reads {
	r := &reads{Store: b.store}
	b.proto = sipherWith(b, r)
	return r
}

func TestManyQuestionsAtDiscoverReadTheRegistryOnce(t *testing.T) {
	b := newBed(t)
	b.acquainted(b.b)
	r := b.counted()
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if w := b.ask("GET", ""); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	b.advance(peers.AnswerAge - 1)
	b.ask("GET", "")
	if n := r.n.Load(); n != 1 {
		t.Errorf("%d reads", n)
	}
	b.advance(1)
	b.ask("GET", "")
	if n := r.n.Load(); n != 2 {
		t.Errorf("%d reads after the answer's age", n)
	}
}

func TestARegistrationShowsInTheCachedAnswer(t *testing.T) {
	b := newBed(t)
	r := b.counted()
	b.ask("GET", "")
	if w := b.ask("POST", b.registrationOf(b.b)); w.Code != 200 {
		t.Fatal(w.Code, w.Body)
	}
	if got := b.listed(); !slices.Equal(got, []string{urlB}) || r.n.Load() != 1 {
		t.Errorf("%v after %d reads", got, r.n.Load())
	}
}

// listed returns the peers that /discover lists.
func (b *bed) listed() []string {
	b.t.Helper()
	var got struct{ Peers []struct{ URL string } }
	if err := json.Unmarshal(b.ask("GET", "").Body.Bytes(), &got); err != nil {
		b.t.Fatal(err)
	}
	urls := []string{}
	for _, p := range got.Peers {
		urls = append(urls, p.URL)
	}
	return urls
}

func TestStrangersTakeHalfOfThePlacesInTheAnswerNewestFirst(t *testing.T) {
	b := newBed(t)
	for i := range peers.MaxPeers {
		at := b.Now().Add(time.Duration(-i) * time.Second)
		b.insert(b.b, func(s *peers.Server) {
			s.URL, s.Stranger, s.LastSeen = fmt.Sprintf("https://stranger%d.example", i), true, at
		})
		if i%2 == 0 {
			b.insert(b.b, func(s *peers.Server) {
				s.URL, s.LastSeen = fmt.Sprintf("https://known%d.example", i), at.Add(-time.Hour)
			})
		}
	}
	got := b.listed()
	if len(got) != peers.MaxPeers || got[0] != "https://stranger0.example" || got[99] != "https://stranger99.example" ||
		got[100] != "https://known0.example" || got[199] != "https://known198.example" {
		t.Errorf("%d: %v", len(got), got)
	}
}

func TestAnonymousRegistrationsKeepABoundedNumberOfRows(t *testing.T) {
	b := newBed(t)
	const before = peers.MaxStrangers + 40 // an earlier version kept them all
	start := b.Now()
	for i := range before {
		b.insert(b.b, func(s *peers.Server) {
			s.URL, s.Stranger, s.LastSeen = fmt.Sprintf("https://s%d.example", i), true, start.Add(time.Duration(i)*time.Millisecond)
		})
	}
	b.insert(b.b, func(s *peers.Server) { s.URL, s.LastSeen = "https://known.example", start.Add(-1000*time.Hour) })
	b.advance(time.Minute)
	for _, p := range []*sipherpeer.Peer{b.b, b.p} {
		if w := b.ask("POST", b.registrationOf(p)); w.Code != 200 {
			t.Fatal(w.Code, w.Body)
		}
	}
	all, err := b.store.Servers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != peers.MaxStrangers+1 {
		t.Errorf("%d rows", len(all))
	}
	for _, url := range []string{"https://known.example", urlB, urlP, fmt.Sprintf("https://s%d.example", before-1)} {
		b.server(url) // fails without it
	}
	if _, err := b.store.Server(t.Context(), "https://s0.example"); !errors.Is(err, peers.ErrUnknown) {
		t.Errorf("the oldest is there: %v", err)
	}
	if got := b.listed(); len(got) != peers.MaxPeers/2+1 || got[0] != urlB || got[1] != urlP {
		t.Errorf("%d listed: %v", len(got), got[:3])
	}
}

// hanging puts servers on the network that answer when they are released.
func (b *bed) hanging(pattern string, n int) (urls []string, c *counting) {
	c = &counting{arrived: make(chan struct{}, 1000), release: make(chan struct{})}
	for i := range n {
		urls = append(urls, fmt.Sprintf(pattern, i))
		b.net.Serve(urls[i], c)
	}
	return urls, c
}

func (b *bed) registrationAt(url string) string {
	return registration(url, b.b.PublicKey(), b.b.EncryptionKey())
}

func TestOneAddressCannotShutTheOthersOut(t *testing.T) {
	b := newBed(t)
	urls, c := b.hanging("https://slow.s%d.example", peers.MaxOfCaller)
	var all sync.WaitGroup
	for _, url := range urls {
		all.Go(func() { b.ask("POST", b.registrationAt(url)) })
	}
	for range urls {
		<-c.arrived
	}
	w := b.ask("POST", b.registrationOf(b.b))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || len(b.b.Received()) > 0 {
		t.Errorf("the same address: %d %s", w.Code, w.Body)
	}
	if w := b.askFrom("192.0.2.2", "POST", b.registrationOf(b.b)); w.Code != 200 {
		t.Errorf("another address: %d %s", w.Code, w.Body)
	}
	close(c.release)
	all.Wait()
	if w := b.ask("POST", b.registrationOf(b.p)); w.Code != 200 {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

func TestCallBacksAtOnceAreBoundedOverAllAddresses(t *testing.T) {
	b := newBed(t)
	urls, c := b.hanging("https://slow.s%d.test", peers.MaxCallbacks)
	var all sync.WaitGroup
	for i := range urls {
		// Each of a site and an address of its own.
		url := fmt.Sprintf("https://s%d.test", i)
		b.net.Serve(url, c)
		all.Go(func() { b.askFrom(fmt.Sprintf("192.0.2.%d", 10+i), "POST", b.registrationAt(url)) })
	}
	for range urls {
		<-c.arrived
	}
	w := b.ask("POST", b.registrationOf(b.b))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	close(c.release)
	all.Wait()
	if w := b.ask("POST", b.registrationOf(b.b)); w.Code != 200 {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

func TestOneServerIsCalledBackAFewTimesHoweverManyRegisterIt(t *testing.T) {
	for name, keysOf := range map[string]func(b *bed) *sipherpeer.Peer{
		"with its own keys": func(b *bed) *sipherpeer.Peer { return b.b },
		"with other keys":   func(b *bed) *sipherpeer.Peer { return b.p },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			p := keysOf(b)
			for i := range 40 { // a second apart
				b.askFrom(fmt.Sprintf("192.0.2.%d", i), "POST", registration(urlB, p.PublicKey(), p.EncryptionKey()))
				b.advance(time.Second)
			}
			if n := len(b.b.Received()); n == 0 || n > peers.TargetBurst+peers.TargetRate {
				t.Errorf("called back %d times", n)
			}
			// The server itself can still register.
			if w := b.ask("POST", b.registrationOf(b.b)); w.Code != 200 {
				t.Errorf("its own registration: %d %s", w.Code, w.Body)
			}
		})
	}
}

func TestOneSiteIsCalledBackAFewTimesUnderAllItsNames(t *testing.T) {
	for name, pattern := range map[string]string{
		"hosts of a domain": "https://h%d.victim.example", "ports of a host": "https://victim.example:%d", "ports of an address": "https://198.51.100.7:%d",
		"addresses of a /64": "https://[2001:db8::%d]",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			for i := range 40 {
				url := fmt.Sprintf(pattern, 8000+i)
				b.net.Serve(url, http.NotFoundHandler())
				b.askFrom(fmt.Sprintf("192.0.2.%d", i), "POST", b.registrationAt(url))
			}
			if n := len(b.net.Asked()); n != peers.SiteRate {
				t.Errorf("%d requests", n)
			}
		})
	}
	// Under a public suffix everybody is a site of their own.
	b := newBed(t)
	for i := range 40 {
		url := fmt.Sprintf("https://site%d.co.uk", i)
		b.net.Serve(url, http.NotFoundHandler())
		b.ask("POST", b.registrationAt(url))
	}
	if n := len(b.net.Asked()); n != 40 {
		t.Errorf("%d requests to 40 sites", n)
	}
}

// Anybody can have us ask any address, so the answer must not be a port scan.
func TestTheAnswerDoesNotSayWhatIsWrongWithTheServer(t *testing.T) {
	answers := map[string]string{}
	for name, prepare := range map[string]func(b *bed){
		"refused":    func(b *bed) { b.net.Fail(urlB, dialError(errRefused)) },
		"time-out":   func(b *bed) { b.net.Fail(urlB, &timeout{}) },
		"reset":      func(b *bed) { b.net.Fail(urlB, dialError(errReset)) },
		"TLS":        func(b *bed) { b.net.Fail(urlB, &outbound.TLSError{Err: errors.New("handshake failure")}) },
		"no host":    func(b *bed) { b.net.Fail(urlB, notFound) },
		"no HTTP":    func(b *bed) { b.net.Fail(urlB, errors.New(`malformed HTTP response "SSH-2.0-OpenSSH_9.9"`)) },
		"closed":     func(b *bed) { b.net.Fail(urlB, io.EOF) },
		"answers 4x": func(b *bed) { b.b.Discover(sipherpeer.Discovery{Status: 404}) },
		"answers 5x": func(b *bed) { b.b.Discover(sipherpeer.Discovery{Status: 500}) },
	} {
		b := newBed(t)
		prepare(b)
		w := b.ask("POST", b.registrationOf(b.b))
		answers[w.Body.String()] = name
		if w.Code != http.StatusBadGateway {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	if len(answers) != 1 {
		t.Errorf("answers differ: %v", answers)
	}
	// Nor does it show what is there instead of a Sipher server.
	clear(answers)
	for _, body := range []string{"root:x:0:0", `{"publicKey":"secret"}`, "[1]", "<html>", `{"publicKey":7,"encryptionPublicKey":"x"}`} {
		b := newBed(t)
		b.b.Discover(sipherpeer.Discovery{Body: body})
		w := b.ask("POST", b.registrationOf(b.b))
		answers[fmt.Sprint(w.Code, w.Body)] = body
	}
	if len(answers) != 1 {
		t.Errorf("answers differ: %v", answers)
	}
}

func TestACallerThatHangsUpSpoilsNoAnswer(t *testing.T) {
	b := newBed(t)
	entered := make(chan struct{})
	gone := make(chan struct{})
	b.net.Serve(urlB, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-gone
		b.b.ServeHTTP(w, r)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	go func() { done <- b.askWith(ctx, b.registrationOf(b.b)) }()
	<-entered
	cancel()
	close(gone)
	<-done
	if w := b.ask("POST", b.registrationOf(b.b)); w.Code != 200 || len(b.b.Received()) != 1 {
		t.Errorf("%d %s after %d calls", w.Code, w.Body, len(b.b.Received()))
	}
}
