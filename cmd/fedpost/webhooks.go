package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"fedpost/client"
)

type webhooksCommand struct {
	List   webhooksList   `cmd:"" help:"List webhooks, their state and what they get."`
	Put    webhooksPut    `cmd:"" help:"Make a webhook, change it, or enable it again."`
	Delete webhooksDelete `cmd:"" help:"Delete a webhook."`
	Test   webhooksTest   `cmd:"" help:"Send a test event."`
}

type webhooksList struct{ remote }

func (c webhooksList) Run(ctx context.Context, out io.Writer) error {
	all := func(api *client.Client) (client.Webhooks, error) {
		w, err := api.Webhooks(ctx)
		return client.Webhooks{Webhooks: w}, err
	}
	return call(ctx, c.remote, out, all, func(out io.Writer, l client.Webhooks) error {
		if len(l.Webhooks) == 0 {
			_, err := fmt.Fprintln(out, "none")
			return err
		}
		return table(out, []string{"ID", "STATE", "URL", "TYPES", "FAILING SINCE", "ERROR"}, rowsOf(l.Webhooks, func(w client.Webhook) []string {
			types := cmp.Or(strings.Join(w.Types, ","), "all")
			if w.Batch {
				types += " (batches)"
			}
			return []string{w.ID, w.State, w.URL, types, when(w.FailingSince), w.LastError}
		}))
	})
}

type webhooksPut struct {
	remote
	ID     string   `arg:"" help:"Id of your choice: letters, digits, - and _."`
	To     string   `arg:"" name:"to" help:"URL that events are sent to."`
	Type   []string `help:"Only events of these types, such as recipient.gone,recipient.dead." enum:"${events}"`
	Batch  bool     `help:"Send up to 100 events in a request."`
	Secret string   `help:"Secret to sign with, whsec_… Default for a new webhook: a random one. Prefer the environment variable: other users of the machine can see flags." env:"FEDPOST_WEBHOOK_SECRET"`
	Rotate bool     `help:"Make a new secret. The old one stays valid for a day."`
}

func (c webhooksPut) Run(ctx context.Context, out io.Writer) error {
	s := client.WebhookSettings{URL: c.To, Types: c.Type, Batch: c.Batch, Secret: c.Secret, RotateSecret: c.Rotate}
	put := func(api *client.Client) (client.Webhook, error) { return api.PutWebhook(ctx, c.ID, s) }
	return call(ctx, c.remote, out, put, func(out io.Writer, w client.Webhook) error {
		if _, err := fmt.Fprintf(out, "%s %s\n", w.ID, w.State); err != nil || w.Secret == "" {
			return err
		}
		_, err := fmt.Fprintf(out, "Its secret is not shown again: %s\n", w.Secret)
		return err
	})
}

type webhooksDelete struct {
	remote
	ID string `arg:"" help:"Id of the webhook."`
}

func (c webhooksDelete) Run(ctx context.Context, out io.Writer) error {
	forget := func(api *client.Client) (map[string]string, error) {
		return map[string]string{"id": c.ID, "status": "deleted"}, api.DeleteWebhook(ctx, c.ID)
	}
	return call(ctx, c.remote, out, forget, func(out io.Writer, _ map[string]string) error {
		_, err := fmt.Fprintf(out, "%s deleted\n", c.ID)
		return err
	})
}

type webhooksTest struct {
	remote
	ID string `arg:"" help:"Id of the webhook."`
}

func (c webhooksTest) Run(ctx context.Context, out io.Writer) error {
	test := func(api *client.Client) (client.TestDelivery, error) { return api.TestWebhook(ctx, c.ID) }
	return call(ctx, c.remote, out, test, func(out io.Writer, t client.TestDelivery) error {
		if t.State == client.StateQueued {
			_, err := fmt.Fprintf(out, "no answer yet; fedpost status %s shows what becomes of it\n", t.ID)
			return err
		}
		return facts(out, "state", t.State, "status", count(t.Status), "error", t.Error, "response", t.Response, "activity", t.ID)
	})
}
