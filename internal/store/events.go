package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/engine/batches"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger/events"
)

var _ events.Store = (*Store)(nil)

var eventPacking = newPacking('1', best, ``+
	`,"h":"","n":2,"s":1700000000000,"a":"`+
	`{"i":"evt_","k":"server.gone","k":"server.exhausted","k":"server.recovered","k":"server.unhealthy","h":"`+
	`connection refused","no such host","context deadline exceeded","server is blocked: ","server is gone: ","not delivered within 168h0m0s","5 tries failed"`+
	`500 Internal Server Error","c":503,"r":"503 Service Unavailable","c":401,"r":"401 Unauthorized","c":400,"r":"400 Bad Request","c":403,"r":"403 Forbidden","c":404,"r":"404 Not Found"`+
	`"t":"Like","t":"Undo","t":"Follow","t":"Accept","t":"Announce","t":"Delete","t":"Update","/activity","/statuses/`+
	`{"t":1700000000000,"e":[{"i":"evt_","k":"recipient.dead","a":"01","k":"recipient.failed","a":"01","k":"recipient.gone","a":"01`+
	`","o":{"i":"https://","t":"Create","a":"https://`+
	`/users/`+
	`/inbox","c":410,"r":"410 Gone","n":1,"s":1700000000000},`)

// AppendEnds implements events.Store. All ends of an activity are in one log.
func (s *Store) AppendEnds(ctx context.Context, ends []events.End) error {
	logs := map[int][]events.End{}
	for _, e := range ends {
		n := shard(string(e.ActivityID), events.Shards)
		logs[n] = append(logs[n], e)
	}
	var g errgroup.Group // a log that fails does not stop the others
	for _, n := range slices.Sorted(maps.Keys(logs)) {
		g.Go(func() error { return s.appendEnds(ctx, n, logs[n]) })
	}
	return wrapped(g.Wait(), "record events of recipients")
}

func (s *Store) appendEnds(ctx context.Context, n int, ends []events.End) error {
	counted := map[string]gone{}
	for part := range batches.Of(ends, events.MostInItem, mostEventBytes, endBytes) {
		t := appending{shard: n, since: part[0].At}
		for _, e := range part {
			if e.At.Before(t.since) {
				t.since = e.At
			}
			t.until = latest(t.until, e.At)
		}
		t.events = func(known map[string]bool) ([]events.Event, error) {
			var es []events.Event
			twice := map[string]bool{}
			for _, e := range part {
				if !known[e.ID] && !twice[e.ID] {
					es = append(es, e.Event)
				}
				twice[e.ID] = true
			}
			return es, s.countGone(ctx, es, counted)
		}
		if err := s.appendTo(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// mostEventBytes bounds an item, before it is packed.
const mostEventBytes = 128 << 10

// endBytes is what an end takes in an item, at most.
func endBytes(e events.End) int {
	return 200 + len(e.Inbox) + len(e.Written) + len(e.Host) + len(e.Reason) + len(e.About.ID) + len(e.About.Type) + len(e.About.Actor) + len(e.About.Metadata)
}

// gone is how often an inbox has answered that it is gone.
type gone struct {
	Inbox string `json:"inbox"`
	Count int    `json:"n"`
	Since int64  `json:"since"`
	// Recent are the latest events that were counted, so that an event that is recorded again
	// after a crash is not counted again.
	Recent []string `json:"recent"`
}

// recentGone bounds Recent: so many events of one inbox may be counted while one of them is being
// recorded.
const recentGone = 8

func goneKey(inbox string) table.Key { return table.Key{PK: "G#" + keyName(inbox), SK: "GONE"} }

// countGone sets Count and Since of the events of inboxes that are gone. counted has what
// this call has counted before, by event.
func (s *Store) countGone(ctx context.Context, es []events.Event, counted map[string]gone) error {
	counts := make([]gone, len(es))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, e := range es {
		c, known := counted[e.ID]
		if counts[i] = c; known || e.Kind != events.RecipientGone {
			continue
		}
		g.Go(func() (err error) {
			counts[i], err = s.countOne(gctx, e.Inbox, e.ID)
			return err
		})
	}
	err := g.Wait()
	for i, c := range counts {
		if c.Count > 0 {
			counted[es[i].ID] = c
			es[i].Count, es[i].Since = c.Count, fromMillis(c.Since)
		}
	}
	return err
}

func (s *Store) countOne(ctx context.Context, inbox, id string) (gone, error) {
	key := goneKey(inbox)
	for try := range conflictTries {
		c := gone{Inbox: inbox, Since: millis(s.now())}
		_, cond, err := s.find(ctx, key, &c)
		if err != nil {
			return gone{}, fmt.Errorf("count the answers of %s: %w", inbox, err)
		}
		if i := slices.Index(c.Recent, id); i >= 0 {
			c.Count -= len(c.Recent) - 1 - i
			return c, nil
		}
		c.Count++
		if c.Recent = append(c.Recent, id); len(c.Recent) > recentGone {
			c.Recent = c.Recent[1:]
		}
		it, err := jsonItem(key, c, s.now().Add(s.keepEvents))
		if err != nil {
			return gone{}, err
		}
		err = s.swap(ctx, &it, cond)
		switch {
		case err == nil:
			return c, nil
		case !errors.Is(err, table.ErrConflict):
			return gone{}, fmt.Errorf("count the answers of %s: %w", inbox, err)
		}
		if err := pause(ctx, 5*time.Millisecond<<min(try, 6)); err != nil {
			return gone{}, err
		}
	}
	return gone{}, errContended(key)
}
