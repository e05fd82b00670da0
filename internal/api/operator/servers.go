package operator

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/client"
	"fedpost/internal/api"
	"fedpost/internal/api/operator/registry"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

func (h handlers) listServers(r *http.Request) (any, error) {
	q, limit := api.ReadPage(r, api.UsualPage, api.MostPage, "phase", "protocol", "waiting")
	f := registry.Filter{Phase: api.Choice(q, "phase", registry.Phases...), Protocol: api.Choice(q, "protocol", h.Servers.Protocols()...)}
	count := q.Flag("waiting")
	if err := q.Check(); err != nil {
		return nil, err
	}
	vs, next, err := h.Servers.List(r.Context(), f, q.Get("cursor"), limit)
	if err != nil {
		return nil, err
	}
	return client.Servers{Servers: vs, NextCursor: next}, h.countWaiting(r.Context(), count, vs)
}

// named is f for requests with the name of a server in the path.
func named(f func(*http.Request, registry.Name) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		n, err := registry.ParseName(r.PathValue("host"))
		if err != nil {
			return nil, err
		}
		return f(r, n)
	}
}

func (h handlers) getServer(r *http.Request, n registry.Name) (any, error) {
	q := api.ReadQuery(r, "waiting")
	count := q.Flag("waiting")
	if err := q.Check(); err != nil {
		return nil, err
	}
	v, err := h.Servers.Of(n).Get(r.Context(), n)
	if err != nil {
		return nil, err
	}
	vs := []client.Server{v}
	err = h.countWaiting(r.Context(), count, vs)
	return vs[0], err
}

// Bounds of the counts in a list of servers, as each counted delivery is read. The servers of a page
// share mostCounted.
const (
	mostOfServer  = 1000
	leastOfServer = 10
)

// countWaiting counts the deliveries that wait for each server, if asked.
func (h handlers) countWaiting(ctx context.Context, asked bool, vs []client.Server) error {
	if !asked {
		return nil
	}
	waited := 0
	for _, v := range vs {
		if v.Parked {
			waited++
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(viewsAtOnce)
	for i := range vs {
		if !vs[i].Parked {
			continue
		}
		g.Go(func() error {
			n, err := registry.ParseName(vs[i].Name)
			if err != nil {
				return err
			}
			most := max(leastOfServer, min(mostOfServer, mostCounted/waited))
			count, err := h.Lots.CountParked(ctx, n.Key, most+1)
			vs[i].Waiting = &client.WaitingInAll{Count: min(count, most), AtLeast: count > most}
			return err
		})
	}
	return g.Wait()
}

// forgetServer deletes the record of a server.
func (h handlers) forgetServer(r *http.Request, n registry.Name) (any, error) {
	if err := api.ReadQuery(r).Check(); err != nil {
		return nil, err
	}
	return nil, h.Servers.Of(n).Forget(r.Context(), n)
}

type act func(d registry.Directory, ctx context.Context, n registry.Name) (client.Server, error)

// about handles a request about one server. read takes the fields of the act from the body.
func (h handlers) about(read func(n registry.Name, in *api.Object) act) func(*http.Request) (any, error) {
	return named(func(r *http.Request, n registry.Name) (any, error) {
		in := api.ReadInput(r)
		do := read(n, in)
		if err := in.Check(); err != nil {
			return nil, err
		}
		return do(h.Servers.Of(n), r.Context(), n)
	})
}

// plain is an act without fields in the body.
func plain(do act) func(registry.Name, *api.Object) act {
	return func(registry.Name, *api.Object) act { return do }
}

// longestWhy is the longest reason in a server's record, in bytes.
const longestWhy = 200

func why(in *api.Object) string {
	s := in.Text("reason")
	if len(s) > longestWhy {
		in.Fault("reason", "has %d bytes; the most is %d", len(s), longestWhy)
	}
	return s
}

func (handlers) blockServer(_ registry.Name, in *api.Object) act {
	why := why(in)
	return func(d registry.Directory, ctx context.Context, n registry.Name) (client.Server, error) {
		return d.Block(ctx, n, why)
	}
}

func (h handlers) pauseServer(_ registry.Name, in *api.Object) act {
	why, until, wait := why(in), in.Instant("until"), in.Duration("for", time.Second)
	now := h.Now()
	switch {
	case !until.IsZero() && wait > 0:
		in.Fault("for", "is given beside until; give one of them, or neither for a pause without end")
	case !until.IsZero() && !until.After(now):
		in.Fault("until", "is in the past")
	case wait > 0:
		until = now.Add(wait)
	}
	return func(d registry.Directory, ctx context.Context, n registry.Name) (client.Server, error) {
		return d.Pause(ctx, n, until, why)
	}
}

// putServer replaces all settings of a server. A setting that is not in the body is removed.
func (handlers) putServer(n registry.Name, in *api.Object) act {
	if n.ByURL() {
		k := client.SipherKeys{Signing: publicKey(in, "publicKey"), Encryption: publicKey(in, "encryptionPublicKey")}
		return func(d registry.Directory, ctx context.Context, n registry.Name) (client.Server, error) {
			return d.Pin(ctx, n, k)
		}
	}
	perMinute, burst := 0, 0
	if limit := in.Object("rateLimit"); limit != nil {
		perMinute, burst = limit.Number("perMinute", mostPerMinute), limit.Number("burst", mostBurst)
		if perMinute == 0 && in.Sound() {
			limit.Fault("perMinute", "is missing; give the number of deliveries a minute, or leave rateLimit out for no limit")
		}
		limit.Done()
	}
	return func(d registry.Directory, ctx context.Context, n registry.Name) (client.Server, error) {
		return d.Limit(ctx, n, perMinute, burst)
	}
}

// Bounds of a rate limit.
const (
	mostPerMinute = 100_000
	mostBurst     = 10_000
)

func publicKey(in *api.Object, name string) string {
	text := in.Text(name)
	if text == "" {
		in.Fault(name, "is missing; give both of the server's public keys in base64, as confirmed by its operator")
	} else if err := registry.CheckKey(text); err != nil {
		in.Fault(name, "%v", err)
	}
	return text
}

// Lots is what the routes need of the parking lots.
type Lots interface {
	ParkedUnder(ctx context.Context, key string, shard int, cursor string, limit int) (ps []parking.Parked, next string, err error)
	CountParked(ctx context.Context, key string, most int) (int, error)
}

// mostCounted is how many waiting deliveries are counted at most, as each is read.
const mostCounted = 10_000

func (h handlers) listWaiting(r *http.Request, n registry.Name) (any, error) {
	if _, many := circuit.FamilyOf(n.Key); n.ByURL() || many {
		return nil, fmt.Errorf("%w: deliveries wait for hosts and inboxes only", registry.ErrNotApplicable)
	}
	q, limit := api.ReadPage(r, api.UsualPage, mostDeadLetters)
	if err := q.Check(); err != nil {
		return nil, err
	}
	shard, after, err := parseWaitingCursor(q.Get("cursor"))
	if err != nil {
		return nil, err
	}
	page := client.Waiting{Server: n.String(), Deliveries: []client.WaitingDelivery{}}
	for shard < parking.Shards && len(page.Deliveries) < limit {
		ps, next, err := h.Lots.ParkedUnder(r.Context(), n.Key, shard, after, limit-len(page.Deliveries))
		if err != nil {
			return nil, err
		}
		page.Deliveries = append(page.Deliveries, api.Each(ps, waiting)...)
		if after = next; next == "" {
			shard++
		}
	}
	if shard < parking.Shards {
		page.NextCursor = registry.Cursor(strconv.Itoa(shard), after)
	}
	if page.Count, err = h.Lots.CountParked(r.Context(), n.Key, mostCounted+1); err != nil {
		return nil, err
	}
	if page.AtLeast = page.Count > mostCounted; page.AtLeast {
		page.Count = mostCounted
	}
	return page, nil
}

func waiting(p parking.Parked) client.WaitingDelivery {
	d := client.WaitingDelivery{
		Activity: string(p.Activity.ID), Type: p.Activity.Type, KeyID: p.Activity.KeyID, Attempts: p.Delivery.Attempts,
		Since: p.Since, GiveUpAt: p.GiveUp, OrderingKey: p.Activity.OrderingKey, Metadata: api.Raw(p.Activity.Metadata),
	}
	if len(p.Delivery.Targets) > 0 {
		d.Inbox, d.CanonicalInbox = api.Inbox(p.Delivery.Targets[0].Inbox, p.Delivery.Targets[0].Written)
	}
	return d
}

func parseWaitingCursor(s string) (shard int, after string, err error) {
	if s == "" {
		return 0, "", nil
	}
	number, after, err := registry.ParseCursor(s)
	if err != nil {
		return 0, "", err
	}
	shard, err = strconv.Atoi(number)
	if err != nil || shard < 0 || shard >= parking.Shards {
		return 0, "", registry.ErrBadCursor
	}
	return shard, after, nil
}
