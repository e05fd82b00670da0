package operator

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"fedpost/client"
	"fedpost/internal/api"
	"fedpost/internal/api/operator/registry"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// Lots is what the routes need of the parking lots.
type Lots interface {
	ParkedUnder(ctx context.Context, key string, shard int, cursor string, limit int) (ps []parking.Parked, next string, err error)
	CountParked(ctx context.Context, key string, most int) (int, error)
}

func WaitingRoutes(l Lots) []api.Route {
	return []api.Route{route("GET /v1/servers/{host}/waiting", named(waitingHandler{l}.list))}
}

type waitingHandler struct{ lots Lots }

// mostCounted is how many waiting deliveries are counted at most, as each is read.
const mostCounted = 10_000

func (h waitingHandler) list(r *http.Request, n registry.Name) (any, error) {
	if _, many := circuit.FamilyOf(n.Key); n.ByURL() || many {
		return nil, fmt.Errorf("%w: deliveries wait for hosts and inboxes only", registry.ErrNotApplicable)
	}
	q, limit := api.ReadPage(r, api.UsualPage, mostDeadLetters)
	if err := q.Check(); err != nil {
		return nil, err
	}
	shard, after, err := parseWaitingCursor(q.Get("cursor"))
	if err != nil {
		return nil, api.BadCursor()
	}
	page := client.Waiting{Server: n.String(), Deliveries: []client.WaitingDelivery{}}
	for shard < parking.Shards && len(page.Deliveries) < limit {
		ps, next, err := h.lots.ParkedUnder(r.Context(), n.Key, shard, after, limit-len(page.Deliveries))
		if err != nil {
			return nil, err
		}
		page.Deliveries = append(page.Deliveries, api.Each(ps, waiting)...)
		if after = next; next == "" {
			shard++
		}
	}
	if shard < parking.Shards {
		page.NextCursor = formatWaitingCursor(shard, after)
	}
	if page.Count, err = h.lots.CountParked(r.Context(), n.Key, mostCounted+1); err != nil {
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

// A cursor is a shard and the cursor in it, encoded so that clients do not make their own.
func formatWaitingCursor(shard int, after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(shard) + " " + after))
}

func parseWaitingCursor(s string) (shard int, after string, err error) {
	if s == "" {
		return 0, "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return 0, "", fmt.Errorf("cursor: %w", err)
	}
	number, after, _ := strings.Cut(string(b), " ")
	shard, err = strconv.Atoi(number)
	if err != nil || shard < 0 || shard >= parking.Shards {
		return 0, "", registry.ErrBadCursor
	}
	return shard, after, nil
}
