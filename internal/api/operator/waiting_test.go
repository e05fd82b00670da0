package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/client"
	"fedpost/internal/api"
	"fedpost/internal/api/operator"
	"fedpost/internal/ledger/events"
)

// quietFeed has one event, after the cursor "has".
type quietFeed struct{ events.Store }

func (quietFeed) Events(_ context.Context, after string, _ int) (events.Page, error) {
	if after == "has" {
		return events.Page{Events: []events.Event{{Kind: events.ServerGone, Host: "a.example"}}, Next: "next"}, nil
	}
	return events.Page{Next: after}, nil
}

// TestAReaderWhoCannotWaitGetsRetryAfter: 64 readers wait, and the next is answered at once.
// Without Retry-After that reader would ask again at once, for ever.
func TestAReaderWhoCannotWaitGetsRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		route := eventsRoute(events.Feed{Store: quietFeed{}, Notifier: new(events.Notifier)})
		read := func(ctx context.Context, query string) (page client.Events, header string, took time.Duration) {
			w, begin := httptest.NewRecorder(), time.Now()
			route.Handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/v1/events?"+query, nil))
			if err := json.NewDecoder(w.Body).Decode(&page); err != nil && err != io.EOF {
				t.Error(err)
			}
			return page, w.Header().Get("Retry-After"), time.Since(begin)
		}
		for range 64 {
			go func() {
				if page, header, took := read(t.Context(), "after=none&wait=20"); took != 20*time.Second || page.RetryAfter != 0 || header != "" {
					t.Errorf("one of those who wait gets %+v, Retry-After %q, after %v", page, header, took)
				}
			}()
		}
		synctest.Wait()
		for query, seconds := range map[string]int{
			"after=none&wait=20": 5,
			"after=none&wait=2":  2,
			"after=none":         0, // does not want to wait
			"after=has&wait=20":  0, // gets an event, and asks for the next
		} {
			header := ""
			if seconds > 0 {
				header = fmt.Sprint(seconds)
			}
			if page, got, took := read(t.Context(), query); took != 0 || page.RetryAfter != seconds || got != header {
				t.Errorf("%s: %+v, Retry-After %q, after %v; not %d s", query, page, got, took, seconds)
			}
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if page, header, took := read(t.Context(), "after=none&wait=20"); took != 20*time.Second || page.RetryAfter != 0 || header != "" {
			t.Errorf("after the others have gone: %+v, Retry-After %q, after %v", page, header, took)
		}
	})
}

// eventsRoute is the route of the feed alone.
func eventsRoute(f events.Feed) api.Route {
	all := operator.Routes(operator.Services{Events: f})
	return all[slices.IndexFunc(all, func(r api.Route) bool { return r.Pattern == "GET /v1/events" })]
}
