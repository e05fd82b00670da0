package peers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/wire"
)

const (
	// DiscoveryTimeout is how long a server has to show its card.
	DiscoveryTimeout = 10 * time.Second
	// RegisterTimeout is how long a server has to register us.
	RegisterTimeout = 5 * time.Second

	// FailureAge is how long a failed discovery is the answer to all who discover the server: else
	// each job of a backlog would ask it. It is shorter than the shortest wait between two tries.
	FailureAge = 4 * time.Second
	// AnnounceRate and AnnounceBurst bound, per minute and at once, how often a server that
	// refuses deliveries is asked to register us.
	AnnounceRate  = 2
	AnnounceBurst = 4

	// maxFailures bounds the failures that are remembered.
	maxFailures = 1000

	// settle is the time for the registry, in addition to the two requests.
	settle = 5 * time.Second
)

// Discovery discovers servers. Use one for a process: concurrent discoveries of a server become one.
type Discovery struct {
	*Prober
	identity crypto.Public

	flights   flights[Server]
	announces *RateLimit

	mu       sync.Mutex
	failures map[string]failure
}

type failure struct {
	err error
	at  time.Time
}

// NewDiscovery returns a Discovery that shares its Prober's registry and client.
func NewDiscovery(id crypto.Public, p *Prober) *Discovery {
	return &Discovery{
		Prober: p, identity: id,
		announces: NewRateLimit(AnnounceRate, AnnounceBurst, p.Now), failures: map[string]failure{},
	}
}

// ErrStore says that a discovery failed because the registry could not be written.
var ErrStore = errors.New("the registry cannot be written")

// Discover asks an unknown server for its keys, registers it under the URL given, and registers us
// with it. A server that refuses to register us is no error. The error wraps a *Fault,
// wire.ErrDiscovery, ErrURL, ErrKeyChanged or ErrStore.
func (d *Discovery) Discover(ctx context.Context, serverURL string) (Server, error) {
	s, err := d.flights.do(ctx, serverURL, DiscoveryTimeout+RegisterTimeout+settle, func(ctx context.Context) (Server, error) {
		return d.discover(ctx, serverURL)
	})
	if err != nil {
		return Server{}, fmt.Errorf("discover %s: %w", serverURL, err)
	}
	return s, nil
}

func (d *Discovery) discover(ctx context.Context, serverURL string) (Server, error) {
	if err := d.recent(serverURL); err != nil {
		return Server{}, err
	}
	card, err := fetch(ctx, d.HTTP, serverURL)
	if err != nil {
		d.remember(serverURL, err)
		return Server{}, err
	}
	card.URL = serverURL
	s, err := Admit(ctx, d.Registry, card, Discovered, d.Now())
	if errors.Is(err, ErrKeyChanged) {
		return Server{}, err
	}
	if err != nil {
		return Server{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	d.Log.InfoContext(ctx, "sipher server discovered", "server", serverURL)
	err = d.register(ctx, serverURL)
	if err != nil {
		d.Log.WarnContext(ctx, "sipher server did not register us; it may refuse our deliveries", "server", serverURL, "error", err)
	}
	if registered := err == nil; registered == s.Unannounced {
		s.Unannounced = !registered
		if err := d.Registry.Announce(ctx, serverURL, registered); err != nil {
			d.Log.ErrorContext(ctx, "cannot record whether a sipher server has registered us", "server", serverURL, "registered", registered, "error", err)
		}
	}
	return s, nil
}

// recent returns the error of a discovery that failed within FailureAge.
func (d *Discovery) recent(serverURL string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.failures[serverURL]
	if !ok || d.Now().Sub(f.at) >= FailureAge {
		return nil
	}
	return f.err
}

// remember keeps the error of a failed discovery, unless we ourselves stopped it.
func (d *Discovery) remember(serverURL string, err error) {
	if f := (*Fault)(nil); errors.As(err, &f) && !f.Host {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Now()
	if len(d.failures) >= maxFailures {
		maps.DeleteFunc(d.failures, func(_ string, f failure) bool { return now.Sub(f.at) >= FailureAge })
	}
	if len(d.failures) < maxFailures {
		d.failures[serverURL] = failure{err, now}
	}
}

// Announce registers us with a server that may not have registered us: it may have been unable to
// call us back when it was discovered. Within AnnounceRate; beyond it does nothing.
func (d *Discovery) Announce(ctx context.Context, serverURL string) error {
	if d.announces.Allow(serverURL) > 0 {
		return nil
	}
	if err := d.register(ctx, serverURL); err != nil {
		return fmt.Errorf("register with %s: %w", serverURL, err)
	}
	return d.Registry.Announce(ctx, serverURL, true)
}

func (d *Discovery) register(ctx context.Context, serverURL string) error {
	body, err := wire.RegistrationBody(cardOf(d.identity))
	if err != nil {
		return err
	}
	headers := map[string]string{"Content-Type": "application/json", "Accept": "application/json"}
	a, err := d.HTTP.Post(ctx, serverURL+"/discover", headers, body, RegisterTimeout)
	if err != nil {
		return err
	}
	if !a.OK() {
		return StatusError(serverURL+"/discover", a)
	}
	return nil
}

func cardOf(id crypto.Public) wire.Card {
	return wire.Card{URL: id.Origin, PublicKey: id.PublicKey, EncryptionKey: id.EncryptionKey}
}

// fetch asks a server for its card. The error wraps a *Fault if no answer came.
func fetch(ctx context.Context, http Exchange, serverURL string) (wire.Card, error) {
	if err := CheckURL(serverURL); err != nil {
		return wire.Card{}, err
	}
	a, err := document(ctx, http, serverURL, DiscoveryTimeout)
	if err != nil {
		return wire.Card{}, err
	}
	return wire.ParseDiscovery(a.Body)
}

// document asks a server for its discovery document.
func document(ctx context.Context, http Exchange, serverURL string, timeout time.Duration) (outbound.Answer, error) {
	a, err := http.Get(ctx, serverURL+"/discover", timeout)
	if err == nil && !a.OK() {
		err = &statusError{StatusError(serverURL+"/discover", a)}
	}
	return a, err
}

// statusError is an answer other than 2xx to a request for a card.
type statusError struct{ error }

// flights makes concurrent calls with the same key one call. Others wait for that call, so it goes on, for
// most at the longest, if the first caller ends.
type flights[T any] struct{ group singleflight.Group }

// do returns what work returns, or the cause of the caller's end.
func (f *flights[T]) do(ctx context.Context, key string, most time.Duration, work func(context.Context) (T, error)) (v T, err error) {
	done := f.group.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
		defer cancel()
		return work(ctx)
	})
	select {
	case <-ctx.Done():
		return v, context.Cause(ctx)
	case r := <-done:
		v, _ = r.Val.(T)
		return v, r.Err
	}
}
