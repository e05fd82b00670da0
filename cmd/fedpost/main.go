// Command fedpost runs fedpost on one machine and talks to it.
//
// `up` serves; the other verbs show, act, or work on a data folder. Verbs that act on a running fedpost
// are clients of its HTTP API, so they work with one on AWS, too.
package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"fedpost/client"
)

// commands are the command line. Settings that both `up` and the Lambda
// functions know are environment variables; flags are for what only a command
// line has.
type commands struct {
	Up   up          `cmd:"" help:"Run everything in one process, as a server."`
	Demo demo        `cmd:"" help:"Send activities to sample servers that accept, fail at first, are gone or hang, and show the results."`
	Sink sinkCommand `cmd:"" help:"Receive activities on this machine for trials: verify each signature and print a line."`

	Send       send              `cmd:"" help:"Send an activity, or a Sipher job."`
	Status     status            `cmd:"" help:"Show the state of an activity and of each recipient."`
	Activities activitiesCommand `cmd:"" help:"List activities, the newest first, by actor, state and time."`
	Cancel     cancel            `cmd:"" help:"Cancel an activity: stop what is not delivered yet."`
	Retry      retry             `cmd:"" help:"Give failed and dead recipients of an activity fresh attempts."`
	Events     eventsCommand     `cmd:"" help:"List or follow events: what became of deliveries and servers."`
	Webhooks   webhooksCommand   `cmd:"" help:"List, set, delete and test webhooks: URLs that get events."`
	Dead       dead              `cmd:"" help:"List, retry and drop dead letters: deliveries that were given up."`
	Servers    serversCommand    `cmd:"" help:"Show, block, pause and limit the servers that deliveries go to."`
	Keys       keysCommand       `cmd:"" help:"Make, store, list, show, rotate and delete signing keys."`
	Follows    followsCommand    `cmd:"" help:"List follows that were announced to Sipher servers."`
	Outbox     outboxCommand     `cmd:"" help:"List rows of the outbox on PostgreSQL; retry and drop refused ones."`
	Watch      watchCommand      `cmd:"" help:"Show queues, counts and servers in trouble live."`
	Stats      statsCommand      `cmd:"" help:"Show queue depths, counts of today, and unhealthy servers."`
	Bench      benchCommand      `cmd:"" help:"Measure fedpost under load: rates, times, processor time of a delivery."`

	Dashboard dashboard `cmd:"" help:"Serve the operator's page here for a fedpost that runs elsewhere, as on AWS, with your own credentials. fedpost up serves its page itself."`

	Backup  backupCommand  `cmd:"" help:"Save the data folder of fedpost up into one file, while it runs."`
	Restore restoreCommand `cmd:"" help:"Make a data folder from a backup."`
	Check   checkCommand   `cmd:"" help:"Check a data folder or a backup: damage, counts, sealing key."`

	Export exportCommand `cmd:"" help:"Write keys, webhooks and records of servers into an encrypted file, to move to another fedpost."`
	Import importCommand `cmd:"" help:"Read keys, webhooks and records of servers from a file that fedpost export has written."`

	Health     health            `cmd:"" help:"Check whether a fedpost works. Exit status: 0 if it does, else 1."`
	Version    versionCommand    `cmd:"" help:"Print the version of this program."`
	Completion completionCommand `cmd:"" help:"Print the script that completes commands in bash, zsh or fish."`
	Complete   completeCommand   `cmd:"" name:"__complete" hidden:""`
	Man        manCommand        `cmd:"" hidden:"" help:"Print the manual page, for man(1)."`

	ShowVersion kong.VersionFlag `name:"version" help:"Print the version, and exit."`

	LogLevel slog.Level `help:"Lowest level of log lines to print: DEBUG, INFO, WARN or ERROR." default:"WARN" env:"FEDPOST_LOG_LEVEL"`
}

// parser reads the command line into c, for commands that print to out.
func parser(c *commands, out screen, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(c, append([]kong.Option{
		kong.Name("fedpost"),
		kong.Description("A delivery queue for federated servers. Settings: docs/configuration.md."),
		kong.BindTo(out, (*io.Writer)(nil)),
		kong.Help(help),
		kong.Vars{"version": versionLine()},
		allowed(),
	}, options...)...)
}

// parse reads the command line. If it is wrong, parse prints one line on standard error and ends the
// process.
func parse(p *kong.Kong, args []string) *kong.Context {
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help":
		args = append(args[1:len(args):len(args)], "--help")
	}
	k, err := p.Parse(args)
	if err != nil {
		complain(p.Stderr, mistake(err))
		p.Exit(usageExit)
	}
	return k
}

func main() {
	var c commands
	p, err := parser(&c, screenOn(os.Stdout))
	if err != nil {
		fmt.Fprintln(os.Stderr, "fedpost:", err)
		os.Exit(1)
	}
	k := parse(p, os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	log := slog.New(logTo(os.Stderr, c.LogLevel))
	k.BindTo(ctx, (*context.Context)(nil))
	status := run(k, log, os.Stderr)
	stop()
	os.Exit(status)
}

// run runs a command, prints its error, and returns its exit status.
func run(k *kong.Context, log *slog.Logger, says io.Writer) int {
	err := k.Run(log)
	if err == nil {
		return 0
	}
	complain(says, said(err, k.Selected().FullPath()))
	return exitStatus(err)
}

// complain prints an error, wrapped between words where a terminal shows it.
func complain(to io.Writer, text string) {
	s := screen{w: to}
	if f, ok := to.(*os.File); ok {
		s = screenOn(f)
	}
	fmt.Fprintln(s, wrapped(text, s.width, 0))
}

// hinting says what to do about an error of a call, "" if the error says it.
func hinting(err error) string {
	var p *client.Problem
	var untrusted x509.UnknownAuthorityError
	switch {
	case errors.As(err, &p) && p.Status == http.StatusUnauthorized && !strings.Contains(p.Detail, "FEDPOST_API_TOKEN"):
		return "FEDPOST_API_TOKEN has the token to send"
	case errors.As(err, &untrusted):
		return "SSL_CERT_FILE names a file with certificates to trust"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "begin the address with http://"
	case errors.Is(err, client.ErrNoAnswer):
		return "fedpost up starts one, and --url or FEDPOST_URL says where it is"
	}
	return ""
}

// said is an error of a command, with the program's name, once.
func said(err error, command string) string {
	if exitStatus(err) == usageExit {
		return hinted(err, command)
	}
	if hint := hinting(err); hint != "" {
		err = fmt.Errorf("%w; %s", err, hint)
	}
	if text := err.Error(); strings.HasPrefix(text, "fedpost ") {
		return text
	}
	return "fedpost: " + err.Error()
}
