package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"fedpost/internal/api/client"
	"fedpost/internal/servers/circuit"
)

type serversShow struct{ named }

// Run shows the record of a server, how much waits for it, and what is tried next.
func (c serversShow) Run(ctx context.Context, out io.Writer) error {
	api, err := c.client(ctx)
	if err != nil {
		return err
	}
	path := client.ServerPath(c.Server)
	var raw json.RawMessage
	if err := api.Do(ctx, http.MethodGet, path, nil, &raw); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(out, raw)
	}
	var s client.Server
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("GET %s: answer: %w", path, err)
	}
	var w client.Waiting
	err = api.Do(ctx, http.MethodGet, path+"/waiting?limit=1", nil, &w)
	if refused := (*client.Problem)(nil); errors.As(err, &refused) && refused.Status == http.StatusConflict {
		return facts(out, append(serverFacts(s), "next", next(s))...) // nothing can wait for a server of this kind
	}
	if err != nil {
		return err
	}
	return facts(out, append(serverFacts(s), "waiting", amount(w.Count, w.AtLeast), "next", next(s))...)
}

// amount is a number of deliveries, of which not all may have been counted.
func amount(n int, atLeast bool) string {
	switch {
	case atLeast:
		return fmt.Sprintf("more than %d deliveries", n)
	case n == 1:
		return "1 delivery"
	}
	return fmt.Sprintf("%d deliveries", n)
}

// next says what is tried next at a server, and when. A time that has passed is that of
// the schedule's next run, within a minute.
func next(s client.Server) string {
	at := when(s.NextCheckAt)
	if s.Phase == circuit.Paused || s.Phase == circuit.Gone {
		at = when(s.Until) // it is looked at before, for what is given up meanwhile
	}
	by := func(then, never string) string {
		if at == "" {
			return never
		}
		return fmt.Sprintf(then, at)
	}
	switch s.Phase {
	case circuit.Unhealthy, circuit.Exhausted:
		return by("a probe at %s, then one delivery on trial", "a probe, once a delivery waits")
	case circuit.HalfOpen:
		return by("one delivery on trial; another at %s", "one delivery on trial")
	case circuit.Recovering:
		return by("what waits is sent, more each minute, from %s", "what waits is sent, more each minute")
	case circuit.Paused:
		return by("the pause ends at %s, then what waits is sent", "nothing: the pause lasts until \"servers resume\"")
	case circuit.Gone:
		return by("deliveries are tried again from %s", "nothing: deliveries fail until \"servers resume\"")
	case circuit.Blocked:
		return "nothing: deliveries fail until \"servers unblock\""
	}
	if s.Parked {
		return by("what waits is sent at the limited rate, from %s", "")
	}
	return ""
}
