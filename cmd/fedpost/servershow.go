package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"fedpost/client"
)

type serversShow struct{ named }

// Run shows the record of a server, how much waits for it, and what is tried next.
func (c serversShow) Run(ctx context.Context, out io.Writer) error {
	api, err := c.client(ctx)
	if err != nil {
		return err
	}
	s, err := api.Server(ctx, c.Server)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(out, s)
	}
	w, err := api.Waiting(ctx, c.Server, "")
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
	if s.Phase == client.PhasePaused || s.Phase == client.PhaseGone {
		at = when(s.Until) // a step before it only gives up what is too old
	}
	by := func(then, never string) string {
		if at == "" {
			return never
		}
		return fmt.Sprintf(then, at)
	}
	switch s.Phase {
	case client.PhaseUnhealthy, client.PhaseExhausted:
		return by("a probe at %s, then one delivery on trial", "a probe, once a delivery waits")
	case client.PhaseHalfOpen:
		return by("one delivery on trial; another at %s", "one delivery on trial")
	case client.PhaseRecovering:
		return by("what waits is sent, more each minute, from %s", "what waits is sent, more each minute")
	case client.PhasePaused:
		return by("the pause ends at %s, then what waits is sent", "nothing: the pause lasts until \"servers resume\"")
	case client.PhaseGone:
		return by("deliveries are tried again from %s", "nothing: deliveries fail until \"servers resume\"")
	case client.PhaseBlocked:
		return "nothing: deliveries fail until \"servers unblock\""
	}
	if s.Parked {
		return by("what waits is sent at the limited rate, from %s", "")
	}
	return ""
}
