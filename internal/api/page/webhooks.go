package page

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"fedpost/client"
	"fedpost/internal/ledger/events"
)

func (p *Page) webhooks(v *visit) error {
	var all client.Webhooks
	if err := v.get("/v1/webhooks", nil, &all); err != nil {
		return err
	}
	return v.show("webhooks", view{Title: "Webhooks", Nav: "webhooks", Refresh: 20, Data: all.Webhooks})
}

func webhookPath(id string) string { return "/v1/webhooks/" + url.PathEscape(id) }

func settingsOf(w client.Webhook, fresh bool) []field {
	kinds := make([]choice, len(events.Kinds))
	for i, k := range events.Kinds {
		kinds[i] = choice{string(k), string(k)}
	}
	fields := []field{
		{Name: "url", Label: "URL", Kind: "text", Value: w.URL, Hint: "https, and no private address"},
		{Name: "types", Label: "Events", Kind: "checks", Choices: kinds, Values: w.Types, Hint: "none ticked: all"},
		{Name: "batch", Label: "Up to 100 events in a request", Kind: "checkbox", On: w.Batch},
	}
	if fresh {
		return append([]field{{Name: "id", Label: "Name", Kind: "text", Hint: "letters, digits, - and _"}}, fields...)
	}
	return append(fields, field{Name: "rotate", Label: "Make a new secret; the old one stays valid for a day", Kind: "checkbox"})
}

func (p *Page) newWebhook(v *visit) error {
	return v.show("ask", view{Title: "Add a webhook", Nav: "webhooks", Data: question{
		Yes: "Add the webhook", Where: "/webhooks/new", Back: "/webhooks", Fields: settingsOf(client.Webhook{}, true),
		Says: []string{"New events are sent to the URL, signed by the specification Standard Webhooks, and retried for 5 days.", "The secret is shown once."},
	}})
}

func (p *Page) askWebhook(v *visit) error {
	id := v.r.PathValue("id")
	var w client.Webhook
	if err := v.get(webhookPath(id), nil, &w); err != nil {
		return err
	}
	q, ok := map[string]question{
		"test": {
			Title: "Send a test event to " + clean(id) + "?", Yes: "Send it",
			Says: []string{"It has the type webhook.test and goes to " + clean(w.URL) + ". The next page shows what became of it."},
		},
		"change": {
			Title: "Change " + clean(id), Yes: "Change it", Fields: settingsOf(w, false),
			Says: []string{"A disabled webhook is enabled again and gets the events it missed."},
		},
		"delete": {
			Title: "Delete " + clean(id) + "?", Yes: "Delete it", Danger: true,
			Says: []string{"No more events are sent to it, and waiting requests are dropped."},
		},
	}[v.r.PathValue("act")]
	if !ok {
		return noSuchAction()
	}
	q.Back, q.Where = "/webhooks", "/webhooks/"+url.PathEscape(id)+"/"+v.r.PathValue("act")
	return v.show("ask", view{Title: q.Title, Nav: "webhooks", Data: q})
}

func (p *Page) actWebhook(v *visit) error {
	id := v.r.PathValue("id")
	switch v.r.PathValue("act") {
	case "test":
		var t client.TestDelivery
		if err := v.do(http.MethodPost, webhookPath(id)+"/test", nil, &t); err != nil {
			return err
		}
		return v.back("/activities/"+url.PathEscape(t.ID), "test")
	case "change":
		return v.setWebhook(id)
	case "delete":
		if err := v.do(http.MethodDelete, webhookPath(id), nil, nil); err != nil {
			return err
		}
		return v.back("/webhooks", "webhook-deleted")
	}
	return noSuchAction()
}

func (p *Page) addWebhook(v *visit) error {
	id := strings.TrimSpace(v.r.PostFormValue("id"))
	if id == "" {
		return refuse(http.StatusBadRequest, "Give the webhook a name.")
	}
	var w client.Webhook
	err := v.get(webhookPath(id), nil, &w)
	if problem, ok := problemOf(err); err == nil || !ok || problem.Status != http.StatusNotFound {
		if err != nil {
			return err
		}
		return refuse(http.StatusConflict, "There is a webhook of this name already: change it, or choose another name.")
	}
	return v.setWebhook(id)
}

// setWebhook stores the settings of a form. Only this answer has a secret that fedpost has
// made, so it is shown without a redirect.
func (v *visit) setWebhook(id string) error {
	if err := v.r.ParseForm(); err != nil {
		return refuse(http.StatusBadRequest, "The form cannot be read.")
	}
	s := client.WebhookSettings{
		URL: strings.TrimSpace(v.r.PostFormValue("url")), Types: slices.Clone(v.r.PostForm["types"]),
		Batch: v.r.PostFormValue("batch") != "", RotateSecret: v.r.PostFormValue("rotate") != "",
	}
	var w client.Webhook
	if err := v.do(http.MethodPut, webhookPath(id), s, &w); err != nil {
		return err
	}
	if w.Secret == "" {
		return v.back("/webhooks", "webhook-changed")
	}
	return v.show("secret", view{Title: "The secret of " + clean(id), Nav: "webhooks", Data: w})
}
