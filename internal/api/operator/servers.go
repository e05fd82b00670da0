package operator

import (
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/client"
	"fedpost/internal/api"
	"fedpost/internal/api/operator/registry"
	"fedpost/internal/api/problem"
	"fedpost/internal/servers/circuit"
)

func ServerRoutes(s *registry.Service, lots Lots, now func() time.Time) []api.Route {
	h := serverHandlers{s, lots, now}
	return []api.Route{
		route("GET /v1/servers", h.list),
		route("GET /v1/servers/{host}", h.get),
		route("PUT /v1/servers/{host}", h.about(h.put)),
		route("DELETE /v1/servers/{host}", h.forget),
		route("POST /v1/servers/{host}/block", h.about(h.block)),
		route("POST /v1/servers/{host}/unblock", h.about(plain(s.Unblock))),
		route("POST /v1/servers/{host}/pause", h.about(h.pause)),
		route("POST /v1/servers/{host}/resume", h.about(plain(s.Resume))),
		route("POST /v1/servers/{host}/check", h.about(plain(s.Check))),
	}
}

type serverHandlers struct {
	*registry.Service
	lots Lots
	now  func() time.Time
}

func (h serverHandlers) list(w http.ResponseWriter, r *http.Request) error {
	q, limit := api.ReadPage(r, api.UsualPage, api.MostPage, "phase", "protocol", "waiting")
	f := registry.Filter{Phase: api.Choice(q, "phase", registry.Phases...), Protocol: api.Choice(q, "protocol", h.Protocols()...)}
	count := q.Flag("waiting")
	if err := q.Check(); err != nil {
		return err
	}
	vs, next, err := h.List(r.Context(), f, q.Get("cursor"), limit)
	if err != nil {
		return serverProblem(err)
	}
	if err := h.countWaiting(r.Context(), count, vs); err != nil {
		return err
	}
	return api.Answer(w, r, http.StatusOK, client.Servers{Servers: vs, NextCursor: next})
}

func (h serverHandlers) get(w http.ResponseWriter, r *http.Request) error {
	n, err := registry.ParseName(r.PathValue("host"))
	if err != nil {
		return serverProblem(err)
	}
	q := api.ReadQuery(r, "waiting")
	count := q.Flag("waiting")
	if err := q.Check(); err != nil {
		return err
	}
	v, err := h.Get(r.Context(), n)
	if err != nil {
		return serverProblem(err)
	}
	vs := []client.Server{v}
	if err := h.countWaiting(r.Context(), count, vs); err != nil {
		return err
	}
	return api.Answer(w, r, http.StatusOK, vs[0])
}

// Bounds of the counts in a list of servers, as each counted delivery is read. The servers of a page
// share mostCounted.
const (
	mostOfServer  = 1000
	leastOfServer = 10
)

// countWaiting counts the deliveries that wait for each server, if asked.
func (h serverHandlers) countWaiting(ctx context.Context, asked bool, vs []client.Server) error {
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
			count, err := h.lots.CountParked(ctx, n.Key, most+1)
			vs[i].Waiting = &client.WaitingInAll{Count: min(count, most), AtLeast: count > most}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return api.RecordProblem(err)
	}
	return nil
}

// forget deletes the record of a server.
func (h serverHandlers) forget(w http.ResponseWriter, r *http.Request) error {
	n, err := registry.ParseName(r.PathValue("host"))
	if err != nil {
		return serverProblem(err)
	}
	if err := api.ReadQuery(r).Check(); err != nil {
		return err
	}
	if err := h.Forget(r.Context(), n); err != nil {
		return serverProblem(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

type act func(ctx context.Context, n registry.Name) (client.Server, error)

// about handles a request about one server. read takes the fields of the act from the body.
func (h serverHandlers) about(read func(n registry.Name, in *api.Object) act) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		n, err := registry.ParseName(r.PathValue("host"))
		if err != nil {
			return serverProblem(err)
		}
		in, err := api.ReadInput(r)
		if err != nil {
			return err
		}
		do := read(n, in)
		if err := in.Check(); err != nil {
			return err
		}
		v, err := do(r.Context(), n)
		if err != nil {
			return serverProblem(err)
		}
		return api.Answer(w, r, http.StatusOK, v)
	}
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

func (h serverHandlers) block(_ registry.Name, in *api.Object) act {
	why := why(in)
	return func(ctx context.Context, n registry.Name) (client.Server, error) { return h.Block(ctx, n, why) }
}

func (h serverHandlers) pause(_ registry.Name, in *api.Object) act {
	why, until, wait := why(in), in.Instant("until"), in.Duration("for", time.Second)
	now := h.now()
	switch {
	case !until.IsZero() && wait > 0:
		in.Fault("for", "is given beside until; give one of them, or neither for a pause without end")
	case !until.IsZero() && !until.After(now):
		in.Fault("until", "is in the past")
	case wait > 0:
		until = now.Add(wait)
	}
	return func(ctx context.Context, n registry.Name) (client.Server, error) {
		return h.Pause(ctx, n, until, why)
	}
}

// put replaces all settings of a server. A setting that is not in the body is removed.
func (h serverHandlers) put(n registry.Name, in *api.Object) act {
	if n.ByURL() {
		k := client.SipherKeys{Signing: publicKey(in, "publicKey"), Encryption: publicKey(in, "encryptionPublicKey")}
		return func(ctx context.Context, n registry.Name) (client.Server, error) { return h.Pin(ctx, n, k) }
	}
	perMinute, burst := 0, 0
	if limit := in.Object("rateLimit"); limit != nil {
		perMinute, burst = limit.Number("perMinute", mostPerMinute), limit.Number("burst", mostBurst)
		if perMinute == 0 && in.Sound() {
			limit.Fault("perMinute", "is missing; give the number of deliveries a minute, or leave rateLimit out for no limit")
		}
		limit.Done()
	}
	return func(ctx context.Context, n registry.Name) (client.Server, error) {
		return h.Limit(ctx, n, perMinute, burst)
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

func serverProblem(err error) error {
	switch {
	case errors.Is(err, registry.ErrName):
		return problem.New(http.StatusBadRequest, "The server in the path is not usable: "+err.Error()+
			`. Give a host such as social.example, "*.social.example" to block its subdomains too, "inbox:" and the URL of an inbox, or a Sipher server's URL, percent-encoded whole.`).Because(err)
	case errors.Is(err, registry.ErrBadCursor):
		return api.BadCursor()
	case errors.Is(err, registry.ErrNoRecord):
		return problem.New(http.StatusNotFound, "There is no record of this server or inbox: it is healthy.").Because(err)
	case errors.Is(err, registry.ErrParked):
		return problem.Typed(http.StatusConflict, "deliveries-wait", "Deliveries wait",
			"Deliveries wait for the server, so its record is needed: GET /v1/servers/{host}/waiting lists them. To end them, block the server first.").Because(err)
	case errors.Is(err, circuit.ErrChanged):
		return problem.New(http.StatusConflict, "The record has just changed. Try again.").Because(err)
	case errors.Is(err, registry.ErrBlocked):
		return problem.New(http.StatusConflict, "The server is blocked: unblock it first.").Because(err)
	case errors.Is(err, registry.ErrNotApplicable):
		return problem.New(http.StatusConflict, "This is not possible for this kind of server: "+err.Error()+".").Because(err)
	}
	return api.RecordProblem(err)
}
