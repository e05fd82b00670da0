package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"fedpost/internal/api/client"
)

// send hands over one activity, or one job of the Sipher protocol.
type send struct {
	remote
	File string   `arg:"" help:"File with the activity, or with the payload of a Sipher job; - reads the standard input." default:"-"`
	To   []string `help:"Inbox, or target URL of a Sipher job. Repeat the flag for more inboxes." required:"" sep:"none"`
	Key  string   `help:"Id of the key to sign with."`

	AllowKeyOfOther bool `help:"Sign with a key that is not the activity's actor's, as for forwarding."`

	Job       string `help:"Sipher: the job, such as deliver-post."`
	ServerURL string `help:"Sipher: origin of the server that the target URL belongs to."`

	Priority         string   `help:"Priority: high, normal or low. Default: by the activity's type." enum:"${priorities}" default:""`
	OrderingKey      string   `help:"Deliver activities with the same key to each host in order."`
	DeduplicationKey string   `help:"Deduplication key: a second call with the same key changes nothing."`
	DeduplicationTTL duration `help:"How long the deduplication key is remembered, such as 36h or 7d."`
	Delay            duration `help:"How long to wait before delivery, such as 30m or 7d."`
	ExpiresIn        duration `help:"Give up after this long, such as 36h or 7d."`
	Notify           bool     `help:"Tell the event activity.done when every recipient has come to its end."`
	Coalesce         string   `help:"latest: skip an activity that a newer one of the same object replaces." enum:"latest," default:""`
}

// Run sends.
func (c send) Run(ctx context.Context, out io.Writer) error {
	text, err := c.read(os.Stdin)
	if err != nil {
		return err
	}
	s := client.Submission{
		KeyID: c.Key, AllowKeyOfOther: c.AllowKeyOfOther, Priority: c.Priority, OrderingKey: c.OrderingKey, DeduplicationKey: c.DeduplicationKey,
		DeduplicationTTL: client.Duration(c.DeduplicationTTL), Delay: client.Duration(c.Delay), ExpiresIn: client.Duration(c.ExpiresIn), Coalesce: c.Coalesce, Notify: c.Notify,
	}
	for _, to := range c.To {
		s.Recipients = append(s.Recipients, client.Recipient{Inbox: to})
	}
	if c.Job != "" || c.ServerURL != "" {
		s.Protocol, s.Job, s.ServerURL, s.Payload = "sipher", c.Job, c.ServerURL, string(text)
	} else {
		s.Activity = bytes.TrimSpace(text)
	}
	api, err := c.client(ctx)
	if err != nil {
		return err
	}
	accepted, err := api.Submit(ctx, s)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(out, accepted)
	}
	_, err = fmt.Fprintf(out, "%s %s, %s\n", accepted.ID, accepted.Status, recipients(accepted.Recipients))
	return err
}

// read returns what is to be sent. A payload is encrypted byte for byte, so
// nothing is taken off it.
func (c send) read(stdin io.Reader) ([]byte, error) {
	var text []byte
	var err error
	if c.File == "-" {
		text, err = io.ReadAll(stdin)
	} else {
		text, err = os.ReadFile(c.File)
	}
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

// recipients formats a number of recipients.
func recipients(n int) string {
	if n == 1 {
		return "1 recipient"
	}
	return fmt.Sprintf("%d recipients", n)
}
