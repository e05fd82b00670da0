package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"fedpost/internal/api/contract"
)

// ServerPath is the path of a server: a host, "inbox:" and an inbox's URL, or a
// Sipher server's URL.
func ServerPath(name string) string { return "/v1/servers/" + url.PathEscape(name) }

// RetryDeadLetters sends dead letters anew.
func (c *Client) RetryDeadLetters(ctx context.Context, s Selection) (Retried, error) {
	body, err := contract.Encode(s)
	if err != nil {
		return Retried{}, err
	}
	var r Retried
	return r, c.Do(ctx, http.MethodPost, "/v1/dead-letters/retry", body, &r)
}

// List reads the pages of a list until it has limit entries or all entries, and returns
// the entries as they came. field is the list's name in the answer, and most the largest
// page that the route gives.
func (c *Client) List(ctx context.Context, path string, query url.Values, field string, limit, most int) ([]json.RawMessage, error) {
	all := []json.RawMessage{}
	for len(all) < limit {
		query.Set("limit", strconv.Itoa(min(limit-len(all), most)))
		var page map[string]json.RawMessage
		if err := c.Do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		var entries []json.RawMessage
		if err := json.Unmarshal(page[field], &entries); err != nil {
			return nil, fmt.Errorf("GET %s: the answer has no list %q: %w", path, field, err)
		}
		all = append(all, entries...)
		var next string
		if raw, ok := page["nextCursor"]; ok {
			if err := json.Unmarshal(raw, &next); err != nil {
				return nil, fmt.Errorf("GET %s: nextCursor: %w", path, err)
			}
		}
		if next == "" {
			break
		}
		query.Set("cursor", next)
	}
	return all, nil
}
