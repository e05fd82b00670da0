package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"fedpost/client"
)

type serversCommand struct {
	List    serversList    `cmd:"" help:"List servers with a record: healthy servers without faults have none."`
	Show    serversShow    `cmd:"" help:"Show the record of a server, how much waits for it, and when it is tried next."`
	Block   serversBlock   `cmd:"" help:"Refuse all deliveries to a server."`
	Unblock serversUnblock `cmd:"" help:"Undo a block."`
	Pause   serversPause   `cmd:"" help:"Pause deliveries to a server; they wait."`
	Resume  serversResume  `cmd:"" help:"End a pause, an outage or the state gone of a server."`
	Check   serversCheck   `cmd:"" help:"Probe an unhealthy server within a minute."`
	Limit   serversLimit   `cmd:"" help:"Limit the deliveries a minute to a server."`
	Pin     serversPin     `cmd:"" help:"Pin the public keys of a Sipher server, after its operator has confirmed them."`
}

// named are the flags and the argument of commands about one server.
type named struct {
	remote
	Server string `arg:"" help:"A host such as social.example, \"inbox:\" and the URL of an inbox, or a Sipher server's URL. For blocks, \"*.\" before a host includes its subdomains."`
}

// act does something to the server, and shows its new state.
func (n named) act(ctx context.Context, out io.Writer, do func(*client.Client) (client.Server, error)) error {
	return call(ctx, n.remote, out, do, showServer)
}

type serversList struct {
	remote
	Phase    string   `help:"Only servers in this phase: healthy, unhealthy, half-open, recovering, paused, exhausted, gone or blocked." enum:"${phases}" default:""`
	Protocol string   `help:"Only servers of this protocol: activitypub, sipher or webhook." enum:"activitypub,sipher,webhook," default:""`
	Limit    positive `help:"List at most this many." default:"100"`
}

func (c serversList) Run(ctx context.Context, out io.Writer) error {
	q := client.ServerQuery{Phase: client.Phase(c.Phase), Protocol: c.Protocol, Waiting: true, Limit: int(c.Limit)}
	return list(ctx, c.remote, out, c.Limit, func(api *client.Client) iter.Seq2[client.Server, error] { return api.Servers(ctx, q) }, func(out io.Writer, all []client.Server) error {
		return showServers(out, all, time.Now())
	})
}

// showServers lists servers by host, those first that most deliveries wait for: a host, and
// below it its inboxes.
func showServers(out io.Writer, all []client.Server, now time.Time) error {
	var rows [][]string
	hosts := client.ByHost(all)
	slices.SortStableFunc(hosts, func(a, b client.Hosted) int { return waitFor(b) - waitFor(a) })
	for _, h := range hosts {
		if h.Own == nil {
			rows = append(rows, []string{h.Host, "", "", "", "", "", "", "", "", "only inboxes of it"})
		} else {
			rows = append(rows, serverRow(*h.Own, now))
		}
		for _, s := range h.Inboxes {
			rows = append(rows, serverRow(s, now))
		}
	}
	return table(out, []string{"SERVER", "PHASE", "SINCE", "NEXT STEP", "WAITING", "CHECKS", "RATE", "INBOX", "SIGNING KEY", "LAST FAULT"}, rows)
}

// waitFor is how many deliveries wait for a host and its inboxes.
func waitFor(h client.Hosted) (n int) {
	all := h.Inboxes
	if h.Own != nil {
		all = append([]client.Server{*h.Own}, all...)
	}
	for _, s := range all {
		if s.Waiting != nil {
			n += s.Waiting.Count
		}
	}
	return n
}

func serverRow(s client.Server, now time.Time) []string {
	name, inbox, since, next, fault, waiting := s.Name, "", s.DownSince, s.NextCheckAt, s.Why, ""
	if s.Host != "" {
		name, inbox = "  an inbox of it", s.Inbox()
		if inbox == "" {
			name = "  all its inboxes"
		}
	}
	if since.IsZero() {
		since = s.Since
	}
	if next.IsZero() {
		next = s.Until
	}
	if s.Reason != "" {
		fault = strings.TrimSuffix(s.Reason+": "+fault, ": ")
	}
	if s.Phase == client.PhaseHealthy && s.Failures > 0 {
		fault = fmt.Sprintf("%d in a row, %s", s.Failures, fault)
	}
	if w := s.Waiting; w != nil {
		waiting = count(w.Count)
		if w.AtLeast {
			waiting += "+"
		}
	}
	return []string{name, string(s.Phase), near(since, now), near(next, now), waiting, count(s.Checks), rate(s.RateLimit), inbox, s.KeyID, fault}
}

func rate(r *client.RateLimit) string {
	if r == nil {
		return ""
	}
	s := fmt.Sprintf("%d/min", r.PerMinute)
	if r.Burst > 0 {
		s += fmt.Sprintf(", %d at once", r.Burst)
	}
	if r.Learnt {
		s += ", learnt"
	}
	return s
}

func showServer(out io.Writer, s client.Server) error {
	parked := ""
	if s.Parked {
		parked = "deliveries wait for it"
	}
	return facts(out, append(serverFacts(s), "next step", when(s.NextCheckAt), "parked", parked)...)
}

func serverFacts(s client.Server) []string {
	pairs := []string{
		"server", s.Name, "signing key of this inbox", s.KeyID, "protocol", string(s.Protocol), "phase", string(s.Phase), "since", when(s.Since), "until", when(s.Until),
		"last fault", s.Reason, "why", s.Why, "down since", when(s.DownSince), "failures in a row", count(s.Failures),
		"failed checks", count(s.Checks), "rate limit", rate(s.RateLimit), "last seen", when(s.LastSeen),
	}
	if s.Keys != nil {
		pairs = append(pairs, "signing key", s.Keys.Signing, "encryption key", s.Keys.Encryption)
	}
	if s.RefusedKeys != nil {
		pairs = append(pairs, "REFUSED signing key", s.RefusedKeys.Signing, "REFUSED encryption key", s.RefusedKeys.Encryption)
	}
	return pairs
}

// family are the flag, and what it means, of commands about a domain.
type family struct {
	Subdomains bool `help:"Also all its subdomains, as with \"*.\" before the host."`
}

func (f family) of(n named) named {
	if f.Subdomains && !strings.HasPrefix(n.Server, "*.") {
		n.Server = "*." + n.Server
	}
	return n
}

type serversBlock struct {
	named
	family
	Reason string `help:"Reason in words, shown with the server."`
}

func (c serversBlock) Run(ctx context.Context, out io.Writer) error {
	n := c.of(c.named)
	return n.act(ctx, out, func(api *client.Client) (client.Server, error) {
		return api.BlockServer(ctx, n.Server, client.Block{Reason: c.Reason})
	})
}

type serversUnblock struct {
	named
	family
}

func (c serversUnblock) Run(ctx context.Context, out io.Writer) error {
	n := c.of(c.named)
	return n.act(ctx, out, func(api *client.Client) (client.Server, error) { return api.UnblockServer(ctx, n.Server) })
}

type serversPause struct {
	named
	For    duration `help:"Length of the pause, such as 90m or 2d. Without --for and --until the pause has no end." xor:"end"`
	Until  moment   `help:"End of the pause, such as 2026-11-21T08:00:00Z." xor:"end"`
	Reason string   `help:"Reason in words, shown with the server."`
}

func (c serversPause) Run(ctx context.Context, out io.Writer) error {
	p := client.Pause{Reason: c.Reason, For: client.Duration(c.For), Until: time.Time(c.Until)}
	return c.act(ctx, out, func(api *client.Client) (client.Server, error) { return api.PauseServer(ctx, c.Server, p) })
}

type serversResume struct{ named }

func (c serversResume) Run(ctx context.Context, out io.Writer) error {
	return c.act(ctx, out, func(api *client.Client) (client.Server, error) { return api.ResumeServer(ctx, c.Server) })
}

type serversCheck struct{ named }

func (c serversCheck) Run(ctx context.Context, out io.Writer) error {
	return c.act(ctx, out, func(api *client.Client) (client.Server, error) { return api.CheckServer(ctx, c.Server) })
}

type serversLimit struct {
	named
	PerMinute natural `arg:"" help:"Deliveries a minute; 0 for no limit."`
	Burst     natural `help:"How many deliveries may go out at once. Default: the deliveries of five seconds."`
}

func (c serversLimit) Run(ctx context.Context, out io.Writer) error {
	var limit *client.RateSetting
	if c.PerMinute > 0 {
		limit = &client.RateSetting{PerMinute: int(c.PerMinute), Burst: int(c.Burst)}
	}
	return c.act(ctx, out, func(api *client.Client) (client.Server, error) { return api.LimitServer(ctx, c.Server, limit) })
}

type serversPin struct {
	named
	PublicKey     string `help:"Public Ed25519 key in base64." required:""`
	EncryptionKey string `help:"Public X25519 key in base64." required:""`
}

func (c serversPin) Run(ctx context.Context, out io.Writer) error {
	k := client.SipherKeys{Signing: c.PublicKey, Encryption: c.EncryptionKey}
	return c.act(ctx, out, func(api *client.Client) (client.Server, error) { return api.PinServer(ctx, c.Server, k) })
}

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
