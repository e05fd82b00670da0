// Package peers is how two Sipher servers get to know each other: we ask
// an unknown server for its keys and register with it, and we serve the same
// to whoever asks us. Without the second half no peer would ever register us,
// and without registration no peer accepts a delivery.
package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/singleflight"

	"fedpost/internal/protocol/sipher/crypto"

	"fedpost/internal/protocol/sipher/wire"
)

const (
	// Timeout of the request for a server's card.
	DiscoveryTimeout = 10 * time.Second
	// RegisterTimeout is that of registering with it, which is worth less.
	RegisterTimeout = 5 * time.Second

	// settle is what remains for the registry beside the two requests.
	settle = 5 * time.Second
)

// Client discovers servers. Use one for a process: concurrent discoveries of
// one server are made once.
type Discovery struct {
	Identity crypto.Public
	Registry Store
	HTTP     Exchange
	Log      *slog.Logger
	Now      func() time.Time

	flights singleflight.Group
}

// ErrStore says that a discovery failed because what was learnt could not be
// stored: nothing is wrong with the server.
var ErrStore = errors.New("the registry cannot be written")

// Discover asks an unknown server who it is, registers it under the URL given
// and registers us with it. That the server does not want us is not fatal. The
// error wraps a *exchange.Fault, wire.ErrDiscovery, registry.ErrURL,
// registry.ErrKeyChanged or ErrStore.
func (c *Discovery) Discover(ctx context.Context, serverURL string) (Server, error) {
	flight := c.flights.DoChan(serverURL, func() (any, error) {
		// Others wait for this flight: it must not end because the one who
		// started it lost patience.
		shared, cancel := context.WithTimeout(context.WithoutCancel(ctx), DiscoveryTimeout+RegisterTimeout+settle)
		defer cancel()
		return c.discover(shared, serverURL)
	})
	select {
	case <-ctx.Done():
		return Server{}, fmt.Errorf("discover %s: %w", serverURL, context.Cause(ctx))
	case r := <-flight:
		if r.Err != nil {
			return Server{}, fmt.Errorf("discover %s: %w", serverURL, r.Err)
		}
		return r.Val.(Server), nil
	}
}

func (c *Discovery) discover(ctx context.Context, serverURL string) (Server, error) {
	card, err := fetch(ctx, c.HTTP, serverURL)
	if err != nil {
		return Server{}, err
	}
	s, err := Admit(ctx, c.Registry, Shown{
		URL: serverURL, PublicKey: card.PublicKey, EncryptionKey: card.EncryptionKey, Via: Discovered,
	}, c.Now())
	if errors.Is(err, ErrKeyChanged) {
		return Server{}, err
	}
	if err != nil {
		return Server{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	c.Log.InfoContext(ctx, "sipher server discovered", "server", serverURL)
	if err := c.register(ctx, serverURL); err != nil {
		c.Log.WarnContext(ctx, "sipher server did not register us; it may refuse our deliveries", "server", serverURL, "error", err)
		s.Unannounced = true
		if err := c.Registry.Announce(ctx, serverURL, false); err != nil {
			c.Log.ErrorContext(ctx, "cannot note that a sipher server did not register us", "server", serverURL, "error", err)
		}
	}
	return s, nil
}

// Announce registers us again with a server that did not register us when it
// was discovered: it may have been unable to call us back then.
func (c *Discovery) Announce(ctx context.Context, serverURL string) error {
	if err := c.register(ctx, serverURL); err != nil {
		return fmt.Errorf("register with %s: %w", serverURL, err)
	}
	return c.Registry.Announce(ctx, serverURL, true)
}

func (c *Discovery) register(ctx context.Context, serverURL string) error {
	body, err := wire.RegistrationBody(cardOf(c.Identity))
	if err != nil {
		return err
	}
	headers := []wire.Header{{Name: "Content-Type", Value: "application/json"}, {Name: "Accept", Value: "application/json"}}
	a, err := c.HTTP.Post(ctx, serverURL+"/discover", headers, body, RegisterTimeout)
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

// fetch asks a server for its card. The error wraps a *exchange.Fault if no
// answer came.
func fetch(ctx context.Context, http Exchange, serverURL string) (wire.Card, error) {
	if err := CheckURL(serverURL); err != nil {
		return wire.Card{}, err
	}
	a, err := http.Get(ctx, serverURL+"/discover", DiscoveryTimeout)
	if err != nil {
		return wire.Card{}, err
	}
	if !a.OK() {
		return wire.Card{}, &statusError{StatusError(serverURL+"/discover", a)}
	}
	return wire.ParseDiscovery(a.Body)
}

// statusError is an answer other than 2xx to a request for a card.
type statusError struct{ error }
