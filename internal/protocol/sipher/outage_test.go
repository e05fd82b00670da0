package sipher_test

import (
	"context"
	"log/slog"
	"time"

	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/follow"
	"fedpost/internal/protocol/sipher/peers"
)

// outage is a storage of which one verb fails.
type outage struct {
	sipher.Store
	verb string
	err  error
}

// sipherWith returns a protocol like the bed's on another storage.
func sipherWith(b *bed, s sipher.Store) *sipher.Protocol {
	b.t.Helper()
	client, err := outbound.New(outbound.Config{UserAgent: "fedpost/test", Transport: b.net})
	if err != nil {
		b.t.Fatal(err)
	}
	return sipher.New(sipher.Config{
		Identity: b.identity(), HTTP: client, Now: b.Now, Store: s, Log: slog.New(slog.NewJSONHandler(b.log, nil)),
	})
}

func (o *outage) fails(verb string) error {
	if o.verb == verb {
		return o.err
	}
	return nil
}

func (o *outage) Blocked(ctx context.Context, url string) (*peers.Block, error) {
	if err := o.fails("Blocked"); err != nil {
		return nil, err
	}
	return o.Store.Blocked(ctx, url)
}

func (o *outage) Blocks(ctx context.Context) ([]peers.Block, error) {
	if err := o.fails("Blocks"); err != nil {
		return nil, err
	}
	return o.Store.Blocks(ctx)
}

func (o *outage) Server(ctx context.Context, url string) (peers.Server, error) {
	if err := o.fails("Server"); err != nil {
		return peers.Server{}, err
	}
	return o.Store.Server(ctx, url)
}

func (o *outage) Servers(ctx context.Context) ([]peers.Server, error) {
	if err := o.fails("Servers"); err != nil {
		return nil, err
	}
	return o.Store.Servers(ctx)
}

func (o *outage) Insert(ctx context.Context, s peers.Server) (peers.Server, bool, error) {
	if err := o.fails("Insert"); err != nil {
		return peers.Server{}, false, err
	}
	return o.Store.Insert(ctx, s)
}

func (o *outage) MakeKnown(ctx context.Context, url string) error {
	if err := o.fails("MakeKnown"); err != nil {
		return err
	}
	return o.Store.MakeKnown(ctx, url)
}

func (o *outage) ReserveTry(ctx context.Context, url string, now time.Time, every time.Duration) (time.Time, error) {
	if err := o.fails("ReserveTry"); err != nil {
		return time.Time{}, err
	}
	return o.Store.ReserveTry(ctx, url, now, every)
}

func (o *outage) MarkAnswering(ctx context.Context, url string) error {
	if err := o.fails("MarkAnswering"); err != nil {
		return err
	}
	return o.Store.MarkAnswering(ctx, url)
}

func (o *outage) MarkUnhealthy(ctx context.Context, url string, r peers.Reason, at time.Time) error {
	if err := o.fails("MarkUnhealthy"); err != nil {
		return err
	}
	return o.Store.MarkUnhealthy(ctx, url, r, at)
}

func (o *outage) MarkHealthy(ctx context.Context, url string, at time.Time) error {
	if err := o.fails("MarkHealthy"); err != nil {
		return err
	}
	return o.Store.MarkHealthy(ctx, url, at)
}

func (o *outage) CountCheck(ctx context.Context, url string, limit int, at time.Time) (int, error) {
	if err := o.fails("CountCheck"); err != nil {
		return 0, err
	}
	return o.Store.CountCheck(ctx, url, limit, at)
}

func (o *outage) AcceptFollow(ctx context.Context, k follow.Key, at time.Time) (bool, error) {
	if err := o.fails("AcceptFollow"); err != nil {
		return false, err
	}
	return o.Store.AcceptFollow(ctx, k, at)
}

func (o *outage) DueChecks(ctx context.Context, now time.Time, limit int) ([]peers.Check, error) {
	if err := o.fails("DueChecks"); err != nil {
		return nil, err
	}
	return o.Store.DueChecks(ctx, now, limit)
}

func (o *outage) ScheduleCheck(ctx context.Context, c peers.Check) (bool, error) {
	if err := o.fails("ScheduleCheck"); err != nil {
		return false, err
	}
	return o.Store.ScheduleCheck(ctx, c)
}

// lateServer is a storage in which a server appears right after it was looked
// for in vain.
type lateServer struct {
	outage
	insert func()
}

func (l *lateServer) Server(ctx context.Context, url string) (peers.Server, error) {
	s, err := l.Store.Server(ctx, url)
	if l.insert != nil {
		l.insert()
		l.insert = nil
	}
	return s, err
}
