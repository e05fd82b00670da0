package page

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"fedpost/client"
	"fedpost/internal/ledger/events"
)

func (p *Page) webhooks(v *visit) error {
	all, err := v.api.Webhooks(v.r.Context())
	if err != nil {
		return err
	}
	return v.show("webhooks", view{Title: "Webhooks", Nav: "webhooks", Refresh: 20, Data: all})
}

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
	return v.ask("webhooks", question{
		Title: "Add a webhook", Yes: "Add the webhook", Back: "/webhooks", Fields: settingsOf(client.Webhook{}, true),
		Says: []string{"New events are sent to the URL, signed by the specification Standard Webhooks, and retried for 5 days.", "The secret is shown once."},
	})
}

func (p *Page) askWebhook(v *visit) error {
	id := v.r.PathValue("id")
	w, err := v.api.Webhook(v.r.Context(), id)
	if err != nil {
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
	q.Back = "/webhooks"
	return v.ask("webhooks", q)
}

func (p *Page) actWebhook(v *visit) error {
	id := v.r.PathValue("id")
	switch v.r.PathValue("act") {
	case "test":
		t, err := v.api.TestWebhook(v.r.Context(), id)
		return v.back("/activities/"+url.PathEscape(t.ID), "test", err)
	case "change":
		return v.setWebhook(id)
	case "delete":
		return v.back("/webhooks", "webhook-deleted", v.api.DeleteWebhook(v.r.Context(), id))
	}
	return noSuchAction()
}

func (p *Page) addWebhook(v *visit) error {
	id := strings.TrimSpace(v.r.PostFormValue("id"))
	if id == "" {
		return refuse(http.StatusBadRequest, "Give the webhook a name.")
	}
	_, err := v.api.Webhook(v.r.Context(), id)
	if _, free := refusedWith(http.StatusNotFound, err); free {
		return v.setWebhook(id)
	}
	return cmp.Or(err, refuse(http.StatusConflict, "There is a webhook of this name already: change it, or choose another name."))
}

// setWebhook stores the settings of a form. Only this answer has a secret that fedpost has
// made, so it is shown without a redirect.
func (v *visit) setWebhook(id string) error {
	s := client.WebhookSettings{
		URL: strings.TrimSpace(v.r.PostFormValue("url")), Types: slices.Clone(v.r.PostForm["types"]),
		Batch: v.r.PostFormValue("batch") != "", RotateSecret: v.r.PostFormValue("rotate") != "",
	}
	w, err := v.api.PutWebhook(v.r.Context(), id, s)
	if err != nil || w.Secret == "" {
		return v.back("/webhooks", "webhook-changed", err)
	}
	return v.show("secret", view{Title: "The secret of " + clean(id), Nav: "webhooks", Data: w})
}
