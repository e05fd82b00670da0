package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"fedpost/internal/api/client"
	"fedpost/internal/api/contract"
)

type serversCommand struct {
	List    serversList    `cmd:"" help:"List servers with a record: healthy servers without faults have none."`
	Show    serversShow    `cmd:"" help:"Show the record of a server, how much waits for it, and what is tried next."`
	Block   serversBlock   `cmd:"" help:"Refuse all deliveries to a server."`
	Unblock serversUnblock `cmd:"" help:"Undo a block."`
	Pause   serversPause   `cmd:"" help:"Pause deliveries to a server; they wait."`
	Resume  serversResume  `cmd:"" help:"Mark a paused, unhealthy or gone server as healthy."`
	Check   serversCheck   `cmd:"" help:"Probe an unhealthy server within a minute."`
	Limit   serversLimit   `cmd:"" help:"Limit the deliveries to a server per minute."`
	Pin     serversPin     `cmd:"" help:"Pin the public keys of a Sipher server, after its operator has confirmed them."`
}

// named are the flags and the argument of commands about one server.
type named struct {
	remote
	Server string `arg:"" help:"A host such as social.example, \"inbox:\" and the URL of an inbox, or a Sipher server's URL. To block subdomains, too, put \"*.\" before the host."`
}

func (n named) act(ctx context.Context, out io.Writer, method, act string, body any) error {
	return call(ctx, n.remote, out, method, client.ServerPath(n.Server)+act, body, showServer)
}

type serversList struct {
	remote
	Phase    string   `help:"Only servers in this phase: healthy, unhealthy, half-open, recovering, paused, exhausted, gone or blocked." enum:"${phases}" default:""`
	Protocol string   `help:"Only servers of this protocol: activitypub or sipher." enum:"activitypub,sipher," default:""`
	Limit    positive `help:"List at most this many." default:"100"`
}

// Run lists.
func (c serversList) Run(ctx context.Context, out io.Writer) error {
	query := url.Values{}
	if c.Phase != "" {
		query.Set("phase", c.Phase)
	}
	if c.Protocol != "" {
		query.Set("protocol", c.Protocol)
	}
	return list(ctx, c.remote, out, "/v1/servers", query, "servers", int(c.Limit), 1000, showServers)
}

func showServers(out io.Writer, all []client.Server) error {
	rows := make([][]string, len(all))
	for i, s := range all {
		since := s.DownSince
		if since.IsZero() {
			since = s.Since
		}
		next := s.NextCheckAt
		if next.IsZero() {
			next = s.Until
		}
		rows[i] = []string{s.Name, string(s.Phase), when(since), when(next), count(s.Checks), rate(s.RateLimit), s.Reason, s.Why}
	}
	return table(out, []string{"SERVER", "PHASE", "SINCE", "NEXT STEP", "CHECKS", "RATE", "REASON", "WHY"}, rows)
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
		"server", s.Name, "protocol", string(s.Protocol), "phase", string(s.Phase), "since", when(s.Since), "until", when(s.Until),
		"reason", s.Reason, "why", s.Why, "down since", when(s.DownSince), "failures in a row", count(s.Failures),
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
	Subdomains bool `help:"Also of all its subdomains, as with \"*.\" before the host."`
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

// Run blocks.
func (c serversBlock) Run(ctx context.Context, out io.Writer) error {
	return c.of(c.named).act(ctx, out, http.MethodPost, "/block", contract.Block{Reason: c.Reason})
}

type serversUnblock struct {
	named
	family
}

// Run unblocks.
func (c serversUnblock) Run(ctx context.Context, out io.Writer) error {
	return c.of(c.named).act(ctx, out, http.MethodPost, "/unblock", nil)
}

type serversPause struct {
	named
	For    duration `help:"Length of the pause, such as 90m or 2d. Without --for and --until the pause has no end." xor:"end"`
	Until  moment   `help:"End of the pause, such as 2026-11-21T08:00:00Z." xor:"end"`
	Reason string   `help:"Reason in words, shown with the server."`
}

// Run pauses.
func (c serversPause) Run(ctx context.Context, out io.Writer) error {
	return c.act(ctx, out, http.MethodPost, "/pause", contract.Pause{Reason: c.Reason, For: contract.Duration(c.For), Until: time.Time(c.Until)})
}

type serversResume struct{ named }

// Run resumes.
func (c serversResume) Run(ctx context.Context, out io.Writer) error {
	return c.act(ctx, out, http.MethodPost, "/resume", nil)
}

type serversCheck struct{ named }

// Run asks for a check.
func (c serversCheck) Run(ctx context.Context, out io.Writer) error {
	return c.act(ctx, out, http.MethodPost, "/check", nil)
}

type serversLimit struct {
	named
	PerMinute natural `arg:"" help:"Deliveries a minute; 0 for no limit."`
	Burst     natural `help:"How many deliveries may go out at once. Default: those of five seconds."`
}

// Run sets the limit.
func (c serversLimit) Run(ctx context.Context, out io.Writer) error {
	var body contract.HostSettings
	if c.PerMinute > 0 {
		body.RateLimit = &contract.RateSetting{PerMinute: int(c.PerMinute), Burst: int(c.Burst)}
	}
	return c.act(ctx, out, http.MethodPut, "", body)
}

type serversPin struct {
	named
	PublicKey     string `help:"Public Ed25519 key in base64." required:""`
	EncryptionKey string `help:"Public X25519 key in base64." required:""`
}

// Run pins.
func (c serversPin) Run(ctx context.Context, out io.Writer) error {
	return c.act(ctx, out, http.MethodPut, "", contract.SipherKeys{Signing: c.PublicKey, Encryption: c.EncryptionKey})
}
