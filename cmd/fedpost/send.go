package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"fedpost/internal/client"
)

// send hands over one activity, or one job of the Sipher protocol.
type send struct {
	remote
	File string   `arg:"" help:"File with the activity, or the payload of a Sipher job; - is the standard input." default:"-"`
	To   []string `help:"Inbox, or target of a Sipher job; repeat it for more." required:"" sep:"none"`
	Key  string   `help:"Id of the key to sign with."`

	Job       string `help:"Sipher: the job, such as deliver-post."`
	ServerURL string `help:"Sipher: the server that the target is of."`

	Priority         string        `help:"high, normal or low."`
	OrderingKey      string        `help:"Keep the order among all activities with this key."`
	DeduplicationKey string        `help:"Accept it only once with this key."`
	DeduplicationTTL time.Duration `help:"For how long the key is remembered."`
	Delay            time.Duration `help:"How long to wait before delivery."`
	ExpiresIn        time.Duration `help:"When it is no longer worth delivering."`
	Coalesce         string        `help:"latest: leave out what a newer activity makes needless."`
	EveryInbox       bool          `help:"Deliver to each inbox, even where a shared one is known."`
}

// Run sends.
func (c send) Run(ctx context.Context, out io.Writer) error {
	text, err := c.read(os.Stdin)
	if err != nil {
		return err
	}
	s := client.Submission{
		KeyID: c.Key, Priority: c.Priority, OrderingKey: c.OrderingKey, DeduplicationKey: c.DeduplicationKey,
		DeduplicationTTL: seconds(c.DeduplicationTTL), Delay: seconds(c.Delay), ExpiresIn: seconds(c.ExpiresIn), Coalesce: c.Coalesce,
	}
	for _, to := range c.To {
		s.Recipients = append(s.Recipients, to)
	}
	if c.EveryInbox {
		s.PreferSharedInbox = new(bool)
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
	_, err = fmt.Fprintf(out, "%s %s, %d recipients\n", accepted.ID, accepted.Status, accepted.Recipients)
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
		return nil, errors.New("what to send is not JSON")
	}
	return text, nil
}

// seconds is a duration as the API reads it, empty for none.
func seconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return "PT" + strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "S"
}

// status shows what has become of an activity.
type status struct {
	remote
	ID    string `arg:"" help:"The activity's id."`
	Limit int    `help:"The most recipients to list." default:"50"`
}

// Run shows.
func (c status) Run(ctx context.Context, out io.Writer) error {
	path := fmt.Sprintf("/v1/activities/%s?limit=%d", url.PathEscape(strings.TrimSpace(c.ID)), min(max(c.Limit, 1), 1000))
	return call(ctx, c.remote, out, http.MethodGet, path, nil, showStatus)
}

func showStatus(out io.Writer, s client.Status) error {
	if _, err := fmt.Fprintf(out, "%s: %s (%s)\n", s.ID, s.Status, counts(s.Counts)); err != nil {
		return err
	}
	rows := make([][]string, len(s.Recipients))
	for i, r := range s.Recipients {
		rows[i] = []string{r.State, count(r.Attempts), count(r.LastStatus), when(r.NextAttemptAt), r.Inbox, r.LastError}
	}
	if err := table(out, []string{"STATE", "ATTEMPTS", "STATUS", "NEXT", "INBOX", "ERROR"}, rows); err != nil || s.NextCursor == "" {
		return err
	}
	_, err := fmt.Fprintln(out, "There are more: --limit.")
	return err
}
