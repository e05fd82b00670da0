package sipher_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/testkit/sipherpeer"
)

func dialError(err error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
}

const (
	errRefused       = syscall.ECONNREFUSED
	errReset         = syscall.ECONNRESET
	errPipe          = syscall.EPIPE
	errSystemTimeout = syscall.ETIMEDOUT
)

var notFound = &net.DNSError{Err: "no such host", Name: "b.example", IsNotFound: true}

func TestNetworkErrorMarksTheServerUnhealthyWithItsReason(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		stored peers.Reason
		class  outcome.Reason
	}{
		"host not found":         {notFound, peers.DNSBlocked, outcome.DNS},
		"resolver failure":       {&net.DNSError{Err: "server misbehaving", Name: "b.example", IsTemporary: true}, peers.DNSBlocked, outcome.DNS},
		"connection refused":     {dialError(syscall.ECONNREFUSED), peers.ConnRefused, outcome.ConnRefused},
		"reset":                  {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, peers.ConnReset, outcome.ConnReset},
		"timed out by system":    {dialError(syscall.ETIMEDOUT), peers.ConnReset, outcome.ConnReset},
		"closed without answer":  {io.EOF, peers.Unknown, outcome.ConnReset},
		"bad certificate":        {&outbound.TLSError{Err: x509.UnknownAuthorityError{}}, peers.TLSError, outcome.TLS},
		"alert of the other end": {&net.OpError{Op: "remote error", Err: errors.New("tls: handshake failure")}, peers.TLSError, outcome.TLS},
		"anything else":          {errors.New("strange"), peers.Unknown, outcome.OtherTrouble},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.acquainted(b.b)
			b.net.Fail(urlB, c.err)
			o := b.attempt(postJob(), 1)
			want{class: outcome.Retry, says: c.err.Error()}.check(t, o)
			if o.Reason != c.class || o.Status != 0 {
				t.Errorf("the outcome is %+v, want the reason %s and no status", o, c.class)
			}
			s := b.server(urlB)
			if s.IsHealthy || s.Reason != c.stored || s.Attempts != 0 || !s.UpdatedAt.Equal(b.Now()) {
				t.Errorf("the server is %+v, want unhealthy for %s since now", s, c.stored)
			}
			// And check 0 is scheduled, five minutes ahead.
			due, err := b.store.DueChecks(t.Context(), b.Now().Add(5*time.Minute), 10)
			if err != nil || len(due) != 1 || due[0].ServerURL != urlB || due[0].Attempt != 0 || !due[0].DueAt.Equal(b.Now().Add(5*time.Minute)) {
				t.Errorf("due are %+v, error %v; want check 0 of B in five minutes", due, err)
			}
		})
	}
}

func TestDeliveryTimesOutAfter15Seconds(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *bed) {
		b.acquainted(b.b)
		b.net.Hang(urlB)
		began := time.Now()
		o := b.attempt(postJob(), 1)
		want{class: outcome.Retry, says: "no answer in time"}.check(t, o)
		if took := time.Since(began); took != 15*time.Second || o.Reason != outcome.Timeout {
			t.Errorf("it took %s, and the outcome is %+v; want 15 s and a timeout", took, o)
		}
		if s := b.server(urlB); s.IsHealthy || s.Reason != peers.TimedOut {
			t.Errorf("the server is %+v, want unhealthy as it timed out", s)
		}
	})
}

func TestDiscoveryTimesOutAfter10Seconds(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *bed) {
		b.net.Hang(urlB)
		began := time.Now()
		want{class: outcome.Retry, unattempted: true, tried: true, says: "no answer in time"}.check(t, b.attempt(postJob(), 1))
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("took %s", took)
		}
		if got := b.net.Asked(); !slices.Equal(got, []string{"GET https://b.example/discover"}) {
			t.Errorf("asked %v", got)
		}
	})
}

func TestRefusalOfTheAddressGuardIsFinalAndNeverProxied(t *testing.T) {
	b := newBed(t)
	b.acquainted(b.b)
	b.acquainted(b.p)
	b.net.Fail(urlB, &outbound.BlockedError{Why: "loopback"})
	o := b.attempt(postJob(), 1)
	want{class: outcome.Refused, unattempted: true, says: "not allowed"}.check(t, o)
	if o.Reason != outcome.BlockedAddr || !b.server(urlB).IsHealthy || len(b.p.Received()) > 0 {
		t.Errorf("the outcome is %+v, the server %+v, the proxy was asked %v; want a blocked address, healthy, nothing", o, b.server(urlB), b.p.Sequence())
	}
}

func TestTargetThatIsNoURLIsFinal(t *testing.T) {
	b := newBed(t)
	b.acquainted(b.b)
	bad := target(postJob())
	bad.Inbox = "b.example/x"
	want{class: outcome.Refused, unattempted: true, says: "cannot make request"}.check(t, b.proto.Attempt(t.Context(), postJob(), bad, 1))
}

func TestASuccessOnlySchedulesACheckWhereChecksAreAllowed(t *testing.T) {
	for reason, healthy := range map[peers.Reason]bool{peers.TimedOut: false, peers.DNSBlocked: true} {
		b := newBed(t)
		b.b.Know(ourURL, b.a.PublicKey(), b.a.EncryptionKey())
		b.insert(b.b, func(s *peers.Server) { s.IsHealthy, s.Reason, s.Attempts = false, reason, 5 })
		delivered.check(t, b.attempt(postJob(), 1))
		s := b.server(urlB)
		due, err := b.store.DueChecks(t.Context(), b.Now().Add(time.Hour), 10)
		if err != nil {
			t.Fatal(err)
		}
		if s.IsHealthy != healthy || (len(due) == 1) == healthy {
			t.Errorf("%s: %+v, due %v", reason, s, due)
		}
	}
}

func TestBrokenOffAnswerIsANetworkError(t *testing.T) {
	b := newBed(t)
	b.acquainted(b.b)
	b.b.Behave(sipherpeer.Behavior{Reset: true})
	o := b.attempt(postJob(), 1)
	want{class: outcome.Retry}.check(t, o)
	if o.Reason != outcome.ConnReset || b.server(urlB).Reason != peers.ConnReset {
		t.Errorf("the outcome is %+v, want a reset connection, which the server's state has, too", o)
	}
}

func TestAnAttemptWithTooLittleTimeIsNotHeldAgainstTheServer(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *bed) {
		b.acquainted(b.b)
		b.net.Hang(urlB)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, outcome.ErrTimeout)
		defer cancel()
		o := b.attemptWith(ctx, postJob(), 1)
		want{class: outcome.Retry, says: "no answer in time"}.check(t, o)
		if s := b.server(urlB); !s.IsHealthy {
			t.Errorf("the server is %+v, want healthy", s)
		}
	})
}

func TestNothingIsSentWhenDiscoveryHasUsedUpTheTime(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *bed) {
		b.serveSlowly()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 12*time.Second, outcome.ErrTimeout)
		defer cancel()
		o := b.attemptWith(ctx, postJob(), 1)
		if o.Class != outcome.Retry || o.Try == outcome.Made {
			t.Errorf("the outcome is %+v, want a retry without an attempt", o)
		}
		if s := b.server(urlB); !s.IsHealthy {
			t.Errorf("the server is %+v, want healthy", s)
		}
		for _, asked := range b.net.Asked() {
			if strings.HasSuffix(asked, sipherpeer.PostsPath) {
				t.Errorf("asked %s", asked)
			}
		}
		<-time.After(peers.RegisterTimeout) // for the discovery, which others may wait for, to end
	})
}

// serveSlowly puts a B on the network that shows its card at the last moment and
// answers nothing else.
func (b *bed) serveSlowly() {
	card := registration(urlB, b.b.PublicKey(), b.b.EncryptionKey())
	b.net.Serve(urlB, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			<-r.Context().Done()
			return
		}
		<-time.After(peers.DiscoveryTimeout - time.Millisecond)
		_, _ = io.WriteString(w, card)
	}))
}

func TestBudgetIsEnoughForTheLongestAttempt(t *testing.T) {
	ps := peersFor(t)
	synctest.Test(t, func(t *testing.T) {
		b := newBedOf(t, ps, policies(t, `{"TIMEOUT":{"proxyEligible":true}}`))
		// Everything takes all of its time, except the card and the sweep, without
		// which there is nothing more to do.
		b.serveSlowly()
		b.insert(b.p, func(s *peers.Server) { s.IsHealthy, s.Reason = false, peers.TimedOut })
		b.net.Serve(urlP, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				<-time.After(peers.SweepTimeout - time.Millisecond)
				return
			}
			<-r.Context().Done()
		}))
		began := time.Now()
		want{class: outcome.Retry, says: "no answer in time"}.check(t, b.attempt(postJob(), 1))
		if took := time.Since(began); took > sipher.Budget || took < sipher.Budget-2*time.Second {
			t.Errorf("took %s of %s", took, sipher.Budget)
		}
		if got := len(b.net.Asked()); got != 5 {
			t.Errorf("%d requests: %v", got, b.net.Asked())
		}
	})
}
