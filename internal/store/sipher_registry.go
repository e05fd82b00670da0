package store

import (
	"context"
	"time"

	"fedpost/internal/protocol/sipher/peers"

	"fedpost/internal/engine/table"
)

// All servers lie in one partition, because the protocol asks for all of them
// at once (peers, proxies) and writes to them seldom.
const (
	sipherServersPK = "SIPHER#SERVERS"
	sipherKeysPK    = "SIPHER#KEYCHANGES"

	// keyChangeKept is how long a refused key is shown after it was last seen.
	keyChangeKept = 90 * 24 * time.Hour
)

func sipherServerKey(url string) table.Key { return table.Key{PK: sipherServersPK, SK: keyName(url)} }

func (x Sipher) rewriteServer(ctx context.Context, url string, f func(old *peers.Server) (*peers.Server, error)) error {
	expires := func(r *peers.Server) time.Time {
		if r.Stranger {
			return r.LastSeen.Add(peers.Forget)
		}
		return time.Time{}
	}
	return rewrite(ctx, x, sipherServerKey(url), expires, f)
}

// change applies f to the record of a server.
func (x Sipher) change(ctx context.Context, url string, f func(*peers.Server)) error {
	return x.rewriteServer(ctx, url, func(r *peers.Server) (*peers.Server, error) {
		if r == nil {
			return nil, peers.ErrUnknown
		}
		f(r)
		return r, nil
	})
}

func (x Sipher) Server(ctx context.Context, url string) (peers.Server, error) {
	var r peers.Server
	it, _, err := x.s.find(ctx, sipherServerKey(url), &r)
	if err == nil && it == nil {
		return r, peers.ErrUnknown
	}
	return r, wrapped(err, "read sipher server")
}

func (x Sipher) Servers(ctx context.Context) ([]peers.Server, error) {
	return listed[peers.Server](ctx, x, sipherServersPK)
}

func (x Sipher) Insert(ctx context.Context, r peers.Server) (existing peers.Server, inserted bool, err error) {
	err = x.rewriteServer(ctx, r.URL, func(old *peers.Server) (*peers.Server, error) {
		inserted = old == nil
		if inserted {
			return &r, nil
		}
		existing = *old
		return nil, nil
	})
	return existing, inserted && err == nil, err
}

func (x Sipher) Seen(ctx context.Context, url string, at time.Time) error {
	return x.change(ctx, url, func(r *peers.Server) { r.LastSeen, r.UpdatedAt = at, at })
}

func (x Sipher) MakeKnown(ctx context.Context, url string) error {
	return x.change(ctx, url, func(r *peers.Server) { r.Stranger = false })
}

func (x Sipher) ForgetStranger(ctx context.Context, url string) error {
	var r peers.Server
	_, cond, err := x.s.find(ctx, sipherServerKey(url), &r)
	if err != nil || !r.Stranger {
		return err
	}
	// After a conflict the record stays, because it has just been changed.
	return wrapped(onConflict(x.s.t.Delete(ctx, sipherServerKey(url), cond), nil), "forget sipher server")
}

func (x Sipher) Announce(ctx context.Context, url string, registered bool) error {
	return x.change(ctx, url, func(r *peers.Server) { r.Unannounced = !registered })
}

func (x Sipher) SetKeys(ctx context.Context, url, publicKey, encryptionKey string, at time.Time) error {
	err := x.rewriteServer(ctx, url, func(r *peers.Server) (*peers.Server, error) {
		if r == nil {
			r = &peers.Server{URL: url, LastSeen: at, CreatedAt: at, IsHealthy: true}
		}
		r.Unannounced = r.Unannounced || r.PublicKey != publicKey || r.EncryptionKey != encryptionKey
		r.PublicKey, r.EncryptionKey, r.UpdatedAt, r.Stranger = publicKey, encryptionKey, at, false
		return r, nil
	})
	if err != nil {
		return err
	}
	k := table.Key{PK: sipherKeysPK, SK: keyName(url)}
	return wrapped(x.s.t.Delete(ctx, k, table.Cond{}), "forget refused key")
}

func (x Sipher) ReserveTry(ctx context.Context, url string, now time.Time, every time.Duration) (next time.Time, err error) {
	err = x.rewriteServer(ctx, url, func(r *peers.Server) (*peers.Server, error) {
		if r == nil {
			return nil, peers.ErrUnknown
		}
		if next = (time.Time{}); r.NextTryAt.IsZero() {
			return nil, nil
		}
		if r.NextTryAt.After(now) {
			next = r.NextTryAt
			return nil, nil
		}
		r.NextTryAt = now.Add(every)
		return r, nil
	})
	return next, err
}

func (x Sipher) MarkAnswering(ctx context.Context, url string) error {
	return x.change(ctx, url, func(r *peers.Server) { r.NextTryAt = time.Time{} })
}

func (x Sipher) MarkUnhealthy(ctx context.Context, url string, reason peers.Reason, at time.Time) error {
	return x.change(ctx, url, func(r *peers.Server) {
		r.IsHealthy, r.Reason, r.Attempts, r.Exhausted, r.UpdatedAt = false, reason, 0, false, at
		switch {
		case reason != peers.TimedOut:
			r.NextTryAt = time.Time{}
		case r.NextTryAt.IsZero():
			r.NextTryAt = at
		}
	})
}

func (x Sipher) MarkHealthy(ctx context.Context, url string, at time.Time) error {
	return x.change(ctx, url, func(r *peers.Server) {
		r.IsHealthy, r.Reason, r.Attempts, r.Exhausted, r.NextTryAt = true, "", 0, false, time.Time{}
		r.LastSeen, r.UpdatedAt = at, at
	})
}

func (x Sipher) CountCheck(ctx context.Context, url string, limit int, at time.Time) (n int, err error) {
	err = x.rewriteServer(ctx, url, func(r *peers.Server) (*peers.Server, error) {
		switch {
		case r == nil:
			return nil, peers.ErrUnknown
		case r.IsHealthy:
			return nil, peers.ErrHealthy
		}
		n = r.Attempts + 1
		r.Attempts, r.UpdatedAt, r.Exhausted = n, at, n >= limit
		return r, nil
	})
	return n, err
}

func (x Sipher) RecordKeyChange(ctx context.Context, c peers.KeyChange) error {
	k := table.Key{PK: sipherKeysPK, SK: keyName(c.URL)}
	expires := func(c *peers.KeyChange) time.Time { return c.Last.Add(keyChangeKept) }
	return rewrite(ctx, x, k, expires, func(old *peers.KeyChange) (*peers.KeyChange, error) {
		next := c
		if old != nil {
			next.First, next.Count = old.First, old.Count+c.Count
		}
		return &next, nil
	})
}

func (x Sipher) KeyChanges(ctx context.Context) ([]peers.KeyChange, error) {
	return listed[peers.KeyChange](ctx, x, sipherKeysPK)
}
