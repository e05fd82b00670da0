// Package demo shows fedpost with four sample servers: one accepts, one fails and recovers, one is gone,
// and one hangs.
//
// It uses the HTTP API only. Its exit code says whether every recipient ended in the expected state.
package demo

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"
	"time"

	"fedpost/client"
)

//go:embed activities/*.json
var activities embed.FS

// keyID is the key that the demo signs with: the fragment of an actor, as
// fediverse servers name their keys.
const keyID = "https://social.example/users/frida#main-key"

// Options say where and how to run.
type Options struct {
	Client   *client.Client
	Out      io.Writer
	Terminal bool // redraw a table in place
	Width    int  // columns of the terminal
	// Wrapped breaks a text for the terminal between words; lines that go on are indented.
	Wrapped func(text string, indent int) string
	// Every is how often the state is looked at.
	Every time.Duration
	// Limit is how long the recipients may take to reach their expected states.
	Limit time.Duration
	// Then, if not nil, runs when they are, while the sample servers go on.
	Then func(ctx context.Context) error
}

// Run sends three activities to four servers each and watches until all
// recipients are where they should be, or ctx ends.
func Run(ctx context.Context, o Options) error {
	servers, err := samples(ctx, o.Client)
	if err != nil {
		return err
	}
	defer stop(servers)
	fmt.Fprintln(o.Out, "Sample servers on loopback:")
	for _, s := range servers {
		fmt.Fprintln(o.Out, o.Wrapped(fmt.Sprintf("  %-8s %s: %s", s.name, s.inbox, s.does), 11))
	}

	if _, err := o.Client.GenerateKey(ctx, keyID, "rsa"); err != nil {
		return fmt.Errorf("make a signing key: %w", err)
	}
	sent, err := submit(ctx, o.Client, servers)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "Made an RSA key, enqueued %d activities to %d inboxes each.\n\n", len(sent), len(servers))
	if err := watch(ctx, o, sent, servers); err != nil || o.Then == nil {
		return err
	}
	return o.Then(ctx)
}

type submitted struct{ name, id string }

func submit(ctx context.Context, c *client.Client, servers []*sample) ([]submitted, error) {
	files, err := activities.ReadDir("activities")
	if err != nil {
		return nil, fmt.Errorf("read sample activities: %w", err)
	}
	recipients := make([]string, len(servers))
	for i, s := range servers {
		recipients[i] = s.inbox
	}
	var sent []submitted
	for _, f := range files {
		body, err := activities.ReadFile(path.Join("activities", f.Name()))
		if err != nil {
			return nil, fmt.Errorf("read sample activity: %w", err)
		}
		a, err := c.Send(ctx, client.Submission{
			Activity: json.RawMessage(body), Recipients: client.To(recipients...), KeyID: keyID,
			AllowKeyOfOther: true, // the samples are of many actors
		})
		if err != nil {
			return nil, fmt.Errorf("enqueue %s: %w", f.Name(), err)
		}
		sent = append(sent, submitted{strings.TrimSuffix(f.Name(), ".json"), a.ID})
	}
	return sent, nil
}

// watch polls the states until all are as wanted.
func watch(ctx context.Context, o Options, sent []submitted, servers []*sample) error {
	ctx, cancel := context.WithTimeout(ctx, o.Limit)
	defer cancel()
	p := &progress{out: o.Out, terminal: o.Terminal, width: o.Width, started: time.Now(), last: map[string]string{}}
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for {
		rows, err := look(ctx, o.Client, sent, servers)
		if err == nil {
			p.show(time.Now(), rows)
			if settled(rows) {
				return summary(o, p.started, rows)
			}
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("the demo did not finish in time; the last error: %w", err)
			}
			return unfinished(rows)
		case <-tick.C:
		}
	}
}

func look(ctx context.Context, c *client.Client, sent []submitted, servers []*sample) ([]row, error) {
	var rows []row
	for _, a := range sent {
		status, err := c.Activity(ctx, a.id)
		if err != nil {
			return nil, err
		}
		byInbox := map[string]client.RecipientStatus{}
		for _, r := range status.Recipients {
			byInbox[r.Inbox] = r
		}
		for _, s := range servers {
			r := byInbox[s.inbox]
			rows = append(rows, row{
				activity: a.name, server: s.name, state: r.State, want: string(s.want),
				attempts: r.Attempts, status: r.LastStatus, note: hideAddress(r.LastError, s.inbox),
			})
		}
	}
	return rows, nil
}

// hideAddress shortens an error by the address, which the row names already.
func hideAddress(text, inbox string) string {
	text = strings.ReplaceAll(text, inbox, "…")
	if u, err := url.Parse(inbox); err == nil {
		text = strings.ReplaceAll(text, u.Host, "…")
	}
	return text
}

func settled(rows []row) bool {
	for _, r := range rows {
		if !r.done() {
			return false
		}
	}
	return true
}

func summary(o Options, started time.Time, rows []row) error {
	counts := map[string]int{}
	for _, r := range rows {
		counts[r.state]++
	}
	text := fmt.Sprintf("All %d recipients are where they should be after %.1f s: %d delivered, %d failed (gone for good), %d parked (their server hangs; fedpost probes it until it is back).",
		len(rows), time.Since(started).Seconds(), counts["delivered"], counts["failed"], counts["parked"])
	fmt.Fprintf(o.Out, "\n%s\n", o.Wrapped(text, 0))
	return nil
}

func unfinished(rows []row) error {
	var wrong []string
	for _, r := range rows {
		if !r.done() {
			wrong = append(wrong, fmt.Sprintf("%s to %s is %q, should be %q", r.activity, r.server, r.state, r.want))
		}
	}
	return fmt.Errorf("not every recipient reached its state in time: %s", strings.Join(wrong, "; "))
}
