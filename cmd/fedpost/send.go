package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"fedpost/client"
)

// send submits one activity, or one job of the Sipher protocol.
type send struct {
	remote
	File string   `arg:"" help:"File with the activity, or with the payload of a Sipher job; - reads the standard input." default:"-"`
	To   []string `help:"Inbox, or target URL of a Sipher job. Repeat the flag for more inboxes." xor:"to" required:"" sep:"none"`
	List string   `name:"to-file" help:"File with the recipients, one on each line: an inbox, or {\"inbox\": …, \"sharedInbox\": …}; - reads the standard input." xor:"to" required:"" placeholder:"FILE"`
	Key  string   `help:"Id of the key to sign with."`

	AllowKeyOfOther bool `help:"Sign with a key that is not the activity's actor's, as for forwarding."`

	Job       string `help:"Sipher: the job, such as deliver-post."`
	ServerURL string `help:"Sipher: origin of the server that the target URL belongs to."`

	DryRun bool `help:"Send and store nothing. Print how many requests would be made, which inboxes are shared by several recipients, and which would be refused."`

	Priority         string   `help:"Priority: high, normal or low. Default: by the activity's type." enum:"${priorities}" default:""`
	OrderingKey      string   `help:"Deliver activities with the same key to each host in order."`
	DeduplicationKey string   `help:"Deduplication key: a second call with the same key changes nothing."`
	DeduplicationTTL duration `help:"How long the deduplication key is remembered, such as 36h or 7d."`
	DeduplicateBy    string   `help:"key: a second call with the same key changes nothing, even with other bytes. By default other bytes are refused." enum:"request,key," default:""`
	Delay            duration `help:"How long to wait before delivery, such as 30m or 7d."`
	ExpiresIn        duration `help:"Give up after this long, such as 36h or 7d."`
	Notify           bool     `help:"Send the event activity.done when all recipients are finished."`
	Metadata         string   `help:"JSON object of up to 1 KiB that status, lists and events return."`
	Coalesce         string   `help:"latest: skip unsent older versions of the same object." enum:"latest," default:""`
}

func (c send) Run(ctx context.Context, out io.Writer) error {
	text, err := c.read(os.Stdin)
	if err != nil {
		return err
	}
	s := client.Submission{
		KeyID: c.Key, AllowKeyOfOther: c.AllowKeyOfOther, Priority: c.Priority, OrderingKey: c.OrderingKey, DeduplicationKey: c.DeduplicationKey,
		DeduplicationTTL: client.Duration(c.DeduplicationTTL), DeduplicateBy: c.DeduplicateBy, Delay: client.Duration(c.Delay), ExpiresIn: client.Duration(c.ExpiresIn), Coalesce: c.Coalesce, Notify: c.Notify, Metadata: json.RawMessage(c.Metadata),
	}
	if s.Recipients, err = c.recipients(os.Stdin); err != nil {
		return err
	}
	if c.Job != "" || c.ServerURL != "" {
		s.Protocol, s.Job, s.ServerURL, s.Payload = "sipher", c.Job, c.ServerURL, string(text)
	} else {
		s.Activity = bytes.TrimSpace(text)
	}
	if c.DryRun {
		return call(ctx, c.remote, out, func(api *client.Client) (client.Checked, error) { return api.Check(ctx, s) }, showChecked)
	}
	return call(ctx, c.remote, out, func(api *client.Client) (client.Accepted, error) { return api.Send(ctx, s) }, showAccepted)
}

func showAccepted(out io.Writer, a client.Accepted) error {
	_, err := fmt.Fprintf(out, "%s %s, %s\n", a.ID, a.Status, recipients(a.Recipients))
	return err
}

// recipients returns those of the flags, or of the file with one on each line.
func (c send) recipients(stdin io.Reader) ([]client.Recipient, error) {
	if c.List == "" {
		return client.To(c.To...), nil
	}
	if c.List == "-" && c.File == "-" {
		return nil, mistaken("both the activity and the recipients are to come from the standard input: give a file for one of them")
	}
	text, err := readAll(c.List, stdin)
	if err != nil {
		return nil, fmt.Errorf("read recipients: %w", err)
	}
	var all []client.Recipient
	n := 0
	for line := range bytes.Lines(text) {
		n++
		var r client.Recipient
		switch line = bytes.TrimSpace(line); {
		case len(line) == 0:
			continue
		case line[0] != '{':
			r.Inbox = string(line)
		default:
			strict := json.NewDecoder(bytes.NewReader(line))
			strict.DisallowUnknownFields()
			if err := strict.Decode(&r); err != nil {
				return nil, fmt.Errorf("%s, line %d, is neither an inbox nor an object with inbox and sharedInbox: %w", c.List, n, err)
			}
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no recipient in %s", c.List)
	}
	return all, nil
}

// readAll reads a file; - is the standard input.
func readAll(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}

// read returns what is to be sent. A payload is encrypted byte for byte, so
// nothing is taken off it.
func (c send) read(stdin io.Reader) ([]byte, error) {
	text, err := readAll(c.File, stdin)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read what to send: %w", err)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, errors.New("there is nothing to send: give a file, or the activity on the standard input")
	case !json.Valid(text):
		return nil, notJSON(c.File, text)
	}
	return text, nil
}

// notJSON says where a text ceases to be JSON.
func notJSON(name string, text []byte) error {
	if name == "-" {
		name = "the standard input"
	}
	var whole json.RawMessage
	err := json.Unmarshal(text, &whole)
	if at := (*json.SyntaxError)(nil); errors.As(err, &at) {
		return fmt.Errorf("%s is not JSON: line %d: %w", name, 1+bytes.Count(text[:at.Offset], []byte("\n")), err)
	}
	return fmt.Errorf("%s is not JSON: %w", name, err)
}

func showChecked(out io.Writer, c client.Checked) error {
	rows := make([][]string, 0, len(c.Shared)+len(c.Refused))
	for _, s := range c.Shared {
		rows = append(rows, []string{s.Inbox, "stands for " + recipients(s.Recipients)})
	}
	for _, r := range c.Refused {
		rows = append(rows, []string{r.Inbox, "REFUSED: " + r.Detail})
	}
	if len(rows) > 0 {
		if err := table(out, []string{"INBOX", ""}, rows); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%s, distinct inboxes: %d; nothing was sent\n", recipients(c.Recipients), c.Inboxes)
	return err
}

// recipients formats a number of recipients.
func recipients(n int) string {
	if n == 1 {
		return "1 recipient"
	}
	return fmt.Sprintf("%d recipients", n)
}
