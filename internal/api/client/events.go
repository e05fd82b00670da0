package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// EventQuery says which part of the feed of events is asked for.
type EventQuery struct {
	// After is a cursor: the Next of the page before; "": the oldest event; "now": none
	// that there is.
	After string
	Types []string
	Limit int // 0: as the server has it
	// Wait is how long to wait for an event if there is none, in whole seconds.
	Wait time.Duration
}

// Events returns a page of the feed of events.
func (c *Client) Events(ctx context.Context, q EventQuery) (Events, error) {
	v := url.Values{}
	if q.After != "" {
		v.Set("after", q.After)
	}
	if len(q.Types) > 0 {
		v.Set("type", strings.Join(q.Types, ","))
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Wait > 0 {
		v.Set("wait", strconv.Itoa(int(q.Wait/time.Second)))
	}
	var page Events
	return page, c.Do(ctx, http.MethodGet, "/v1/events?"+v.Encode(), nil, &page)
}
