package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/app"
	"fedpost/internal/engine/outbox"
)

// rows is an outbox in memory.
type rows []outbox.Row

func (rs rows) List(_ context.Context, state outbox.State, after int64, limit int) (found []outbox.Row, err error) {
	for _, r := range rs {
		if r.ID > after && (state == "" || r.State == state) && len(found) < limit {
			found = append(found, r)
		}
	}
	return found, nil
}

func (rs rows) Retry(_ context.Context, id int64, limit int) (n int, err error) {
	for _, r := range rs {
		if r.State == outbox.Refused && (id == 0 || id == r.ID) && n < limit {
			n++
		}
	}
	return n, nil
}

func (rs rows) Drop(ctx context.Context, id int64, limit int) (int, error) {
	return rs.Retry(ctx, id, limit)
}

func (rs rows) Depth(context.Context) (outbox.Depth, error) {
	return outbox.Depth{Waiting: 1, Refused: 2, Oldest: start.Add(-time.Minute)}, nil
}

func TestTheOutboxIsListedRetriedAndDropped(t *testing.T) {
	key := strings.Repeat("k", 400) + "\x00"
	problem := `{"type":"about:blank","title":"Bad Request","status":400,"errors":[{"pointer":"#/keyId","detail":"is not known"}]}`
	w := newWorld(t, func(p *app.Ports) {
		p.Rows = rows{
			{ID: 3, Created: start, State: outbox.Refused, Key: &key, Problem: problem, Tries: 1, Ended: start},
			{ID: 5, Created: start, State: outbox.Accepted, Activity: "01JDK0000000000000000000A1", Ended: start},
			{ID: 8, Created: start, State: outbox.Waiting},
			{ID: 9, Created: start, State: outbox.Refused, Problem: problem, Ended: start},
		}
	})
	var got []string
	for cursor, first := "", true; first || cursor != ""; first = false {
		var page client.OutboxRows
		w.must("GET", "/v1/outbox?limit=1&cursor="+cursor, "", &page)
		for _, r := range page.Rows {
			got = append(got, fmt.Sprintf("%s %s %t %t %t", r.ID, r.State, len(r.DeduplicationKey) > 310, r.Problem != nil, r.EndedAt.IsZero()))
		}
		cursor = page.NextCursor
	}
	want := "[3 refused false true false 5 accepted false false false 8 waiting false false true 9 refused false true false]"
	if fmt.Sprint(got) != want {
		t.Errorf("the rows are\n%v, want\n%v", got, want)
	}
	var retried client.Retried
	w.must("POST", "/v1/outbox/retry", `{"limit":1}`, &retried)
	if retried != (client.Retried{Retried: 1, More: true}) {
		t.Errorf("retried %+v, want one, and more", retried)
	}
	w.must("POST", "/v1/outbox/retry", "", &retried)
	if retried != (client.Retried{Retried: 2}) {
		t.Errorf("retried %+v, want both", retried)
	}
	var dropped client.Dropped
	w.must("DELETE", "/v1/outbox?id=5", "", &dropped)
	if dropped != (client.Dropped{}) {
		t.Errorf("dropped %+v, want none, as the row was not refused", dropped)
	}
	var stats client.Stats
	w.must("GET", "/v1/stats", "", &stats)
	if o := stats.Outbox; o == nil || *o != (client.OutboxDepth{Waiting: 1, Refused: 2, Oldest: 60}) {
		t.Errorf("statistics have %+v of the outbox", o)
	}
	for _, c := range []struct{ says, method, path, body string }{
		{"state is", "GET", "/v1/outbox?state=lost", ""},
		{"nextCursor", "GET", "/v1/outbox?cursor=x", ""},
		{"#/id", "POST", "/v1/outbox/retry", `{"id":"-1"}`},
		{"id is not", "DELETE", "/v1/outbox?id=x", ""},
		{"between 1 and", "DELETE", "/v1/outbox?limit=0", ""},
	} {
		w.refused(400, c.says, c.method, c.path, c.body)
	}
}

func TestAnEngineWithoutAnOutboxSaysSo(t *testing.T) {
	w := newWorld(t)
	w.refused(404, "Only fedpost on PostgreSQL", "GET", "/v1/outbox", "")
	w.refused(404, "no-outbox", "POST", "/v1/outbox/retry", "")
	var stats client.Stats
	if w.must("GET", "/v1/stats", "", &stats); stats.Outbox != nil {
		t.Errorf("statistics have %+v of the outbox, want nothing", stats.Outbox)
	}
}
