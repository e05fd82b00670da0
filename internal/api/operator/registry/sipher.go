package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/peers"
)

// siphers are the servers in the registry of the Sipher protocol.
type siphers struct{ *Service }

func (siphers) protocols() []activity.Protocol { return []activity.Protocol{activity.Sipher} }

func (s siphers) Get(ctx context.Context, n Name) (client.Server, error) {
	v, err := s.one(ctx, n.URL)
	if errors.Is(err, ErrUnknown) {
		return hosts(s).Get(ctx, n.ofHost())
	}
	return v, err
}

// page returns servers by URL.
func (s siphers) page(ctx context.Context, f Filter, after string, limit int) ([]client.Server, string, error) {
	all, err := s.all(ctx)
	if err != nil {
		return nil, "", err
	}
	all = slices.DeleteFunc(all, func(v client.Server) bool { return v.Name <= after || !f.matches(v) })
	if len(all) <= limit {
		return all, "", nil
	}
	return all[:limit], all[limit-1].Name, nil
}

// one returns a Sipher server: registered, blocked, or both.
func (s siphers) one(ctx context.Context, url string) (client.Server, error) {
	v := client.Server{Name: url, Protocol: string(activity.Sipher), Phase: client.PhaseHealthy}
	r, err := s.Sipher.Server(ctx, url)
	known := err == nil
	if err != nil && !errors.Is(err, peers.ErrUnknown) {
		return client.Server{}, fmt.Errorf("look up %s: %w", url, err)
	}
	if known {
		v = sipherView(r)
	}
	found, err := s.Sipher.Blocked(ctx, url)
	if err != nil {
		return client.Server{}, fmt.Errorf("look up %s: %w", url, err)
	}
	if found != nil {
		block(&v, *found)
	}
	if !known && found == nil {
		return v, fmt.Errorf("%s: %w", url, ErrUnknown)
	}
	changes, err := s.Sipher.KeyChanges(ctx)
	if err != nil {
		return client.Server{}, fmt.Errorf("look up %s: %w", url, err)
	}
	for _, c := range changes {
		if c.URL == url {
			v.RefusedKeys = refused(c)
		}
	}
	return v, nil
}

// sipherView is a registered server in the vocabulary of circuits. It is exhausted when its last check
// has failed: only a delivery or an operator then contacts it again.
func sipherView(r peers.Server) client.Server {
	v := client.Server{
		Name: r.URL, Protocol: string(activity.Sipher), Phase: client.PhaseHealthy, LastSeen: r.LastSeen, Since: r.CreatedAt,
		Keys: &client.SipherKeys{Signing: r.PublicKey, Encryption: r.EncryptionKey},
	}
	if !r.IsHealthy {
		v.Phase, v.Since, v.Reason, v.Checks = client.PhaseUnhealthy, r.UpdatedAt, string(r.Reason), r.Attempts
		if r.Exhausted {
			v.Phase = client.PhaseExhausted
		}
	}
	return v
}

func block(v *client.Server, b peers.Block) {
	v.Phase, v.Since, v.Reason, v.Why = client.PhaseBlocked, b.CreatedAt, "", b.Reason
}

func refused(c peers.KeyChange) *client.RefusedKeys {
	return &client.RefusedKeys{
		SipherKeys: client.SipherKeys{Signing: c.PublicKey, Encryption: c.EncryptionKey},
		Via:        c.Via, FirstSeen: c.First, LastSeen: c.Last, Count: c.Count,
	}
}

func (s siphers) all(ctx context.Context) ([]client.Server, error) {
	registered, err := s.Sipher.Servers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list Sipher servers: %w", err)
	}
	blocks, err := s.Sipher.Blocks(ctx)
	if err != nil {
		return nil, fmt.Errorf("list blocks of Sipher servers: %w", err)
	}
	changes, err := s.Sipher.KeyChanges(ctx)
	if err != nil {
		return nil, fmt.Errorf("list refused keys of Sipher servers: %w", err)
	}
	byURL := make(map[string]*client.Server, len(registered))
	for _, r := range registered {
		v := sipherView(r)
		byURL[r.URL] = &v
	}
	for _, b := range blocks {
		if byURL[b.ServerURL] == nil {
			byURL[b.ServerURL] = &client.Server{Name: b.ServerURL, Protocol: string(activity.Sipher)}
		}
		block(byURL[b.ServerURL], b)
	}
	for _, c := range changes {
		if v := byURL[c.URL]; v != nil {
			v.RefusedKeys = refused(c)
		}
	}
	all := make([]client.Server, 0, len(byURL))
	for _, v := range byURL {
		all = append(all, *v)
	}
	slices.SortFunc(all, func(a, b client.Server) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// ill returns a server, and whether it is neither healthy nor blocked.
func (s siphers) ill(ctx context.Context, url string) (v client.Server, ill bool, err error) {
	if v, err = s.one(ctx, url); err == nil && v.Phase == client.PhaseBlocked {
		return client.Server{}, false, fmt.Errorf("%s: %w", url, ErrBlocked)
	}
	return v, err == nil && v.Phase != client.PhaseHealthy, err
}

func (s siphers) Resume(ctx context.Context, n Name) (client.Server, error) {
	v, ill, err := s.ill(ctx, n.URL)
	switch {
	case errors.Is(err, ErrUnknown):
		return hosts(s).Resume(ctx, n.ofHost())
	case !ill:
		return v, err
	}
	if err := s.Sipher.MarkHealthy(ctx, n.URL, s.Now()); err != nil {
		return client.Server{}, fmt.Errorf("resume %s: %w", n.URL, err)
	}
	return s.one(ctx, n.URL)
}

// Check makes the next check of an unhealthy server due now.
func (s siphers) Check(ctx context.Context, n Name) (client.Server, error) {
	v, ill, err := s.ill(ctx, n.URL)
	switch {
	case errors.Is(err, ErrUnknown):
		return hosts(s).Check(ctx, n.ofHost())
	case !ill:
		return v, err
	}
	v.NextCheckAt = s.Now()
	if err := s.Sipher.HastenCheck(ctx, peers.Check{ServerURL: n.URL, Attempt: v.Checks, DueAt: v.NextCheckAt}); err != nil {
		return client.Server{}, fmt.Errorf("schedule a check of %s: %w", n.URL, err)
	}
	return v, nil
}

var ErrKey = errors.New("is not a public key: 32 bytes in base64")

// CheckKey returns an error that wraps ErrKey unless text is a public key.
func CheckKey(text string) error {
	if _, err := crypto.DecodeSize(text, crypto.KeySize); err != nil {
		return fmt.Errorf("%w: %w", ErrKey, err)
	}
	return nil
}

func (s siphers) Block(ctx context.Context, n Name, why string) (client.Server, error) {
	if _, err := hosts(s).Block(ctx, n.ofHost(), why); err != nil {
		return client.Server{}, err
	}
	if err := s.Sipher.Block(ctx, peers.Block{ServerURL: n.URL, Reason: why, CreatedAt: s.Now()}); err != nil {
		return client.Server{}, fmt.Errorf("block %s: %w", n, err)
	}
	return s.one(ctx, n.URL)
}

func (s siphers) Unblock(ctx context.Context, n Name) (client.Server, error) {
	if _, err := hosts(s).Unblock(ctx, n.ofHost()); err != nil {
		return client.Server{}, err
	}
	if err := s.Sipher.Unblock(ctx, n.URL); err != nil {
		return client.Server{}, fmt.Errorf("unblock %s: %w", n, err)
	}
	v, err := s.one(ctx, n.URL)
	if errors.Is(err, ErrUnknown) {
		return v, nil // the server had no record except for the block
	}
	return v, err
}

func (siphers) Pause(context.Context, Name, time.Time, string) (client.Server, error) {
	return client.Server{}, fmt.Errorf("pausing %w to a Sipher server, whose deliveries do not wait: block it", ErrNotApplicable)
}

func (siphers) Forget(context.Context, Name) error {
	return fmt.Errorf("forgetting %w to Sipher servers, whose keys are pinned: block them instead", ErrNotApplicable)
}

func (siphers) Limit(context.Context, Name, int, int) (client.Server, error) {
	return client.Server{}, fmt.Errorf("a rate limit %w to a Sipher server", ErrNotApplicable)
}

func (s siphers) Pin(ctx context.Context, n Name, k client.SipherKeys) (client.Server, error) {
	for _, text := range []string{k.Signing, k.Encryption} {
		if err := CheckKey(text); err != nil {
			return client.Server{}, err
		}
	}
	if err := s.Sipher.SetKeys(ctx, n.URL, k.Signing, k.Encryption, s.Now()); err != nil {
		return client.Server{}, fmt.Errorf("pin keys of %s: %w", n, err)
	}
	return s.one(ctx, n.URL)
}
