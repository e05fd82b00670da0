package operator

import (
	"net/http"
	"net/url"
	"slices"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/api"
	"fedpost/internal/api/problem"
	"fedpost/internal/ledger/events"
	"fedpost/internal/protocol/webhook"
)

func stateOf(w webhook.Webhook) string {
	switch {
	case !w.DisabledAt.IsZero():
		return client.WebhookDisabled
	case !w.FailingSince.IsZero():
		return client.WebhookFailing
	}
	return client.WebhookEnabled
}

func shownWebhook(w webhook.Webhook) client.Webhook {
	return client.Webhook{
		ID: w.ID, URL: w.URL, Types: w.Types, Batch: w.Batch, State: stateOf(w), CreatedAt: w.CreatedAt,
		FailingSince: w.FailingSince, LastError: w.LastError, DisabledAt: w.DisabledAt,
	}
}

func (h handlers) listWebhooks(r *http.Request) (any, error) {
	all, err := h.Webhooks.Webhooks(r.Context())
	return client.Webhooks{Webhooks: api.Each(all, shownWebhook)}, err
}

func (h handlers) getWebhook(r *http.Request) (any, error) {
	one, err := h.Webhooks.Webhook(r.Context(), r.PathValue("id"))
	return shownWebhook(one), err
}

func (h handlers) putWebhook(r *http.Request) (any, error) {
	id := r.PathValue("id")
	if !webhook.ValidID(id) {
		return nil, problem.New(http.StatusBadRequest, "The id in the path is not usable: give up to 64 letters, digits, - and _.")
	}
	in := api.ReadInput(r)
	s := webhook.Settings{
		Types: in.Texts("types", len(events.Kinds)), Batch: in.Flag("batch", false), Secret: in.Text("secret"), Rotate: in.Flag("rotateSecret", false),
	}
	s.URL = h.target(in, in.Text("url"))
	for i, kind := range s.Types {
		if !slices.Contains(events.Kinds, events.Kind(kind)) {
			in.FaultAt("types", i, "is no type of events: GET /v1/events lists them")
		}
	}
	if s.Secret != "" {
		if err := webhook.CheckSecret(s.Secret); err != nil {
			in.Fault("secret", "%v", err)
		} else if s.Rotate {
			in.Fault("rotateSecret", "makes a new secret; leave out secret or rotateSecret")
		}
	}
	if err := in.Check(); err != nil {
		return nil, err
	}
	one, secret, created, err := h.Webhooks.Put(r.Context(), id, s)
	if err != nil {
		return nil, err
	}
	answer := shownWebhook(one)
	answer.Secret = secret
	if created {
		return api.Reply{Status: http.StatusCreated, Location: "/v1/webhooks/" + url.PathEscape(id), Body: answer}, nil
	}
	return answer, nil
}

// target is the canonical URL of a webhook.
func (h handlers) target(in *api.Object, given string) string {
	if given == "" {
		if in.Sound() {
			in.Fault("url", "is missing; give the URL that events are sent to")
		}
		return ""
	}
	canonical, err := activity.CanonicalURL(given)
	if err != nil {
		in.Fault("url", "%v", err)
		return ""
	}
	if u, err := url.Parse(canonical); err != nil || u.Scheme != "https" && !h.PlainHTTP {
		in.Fault("url", "is not https; plain http needs OUTBOUND_PLAIN_HTTP")
	}
	return canonical
}

func (h handlers) deleteWebhook(r *http.Request) (any, error) {
	return nil, h.Webhooks.DeleteWebhook(r.Context(), r.PathValue("id"))
}

func (h handlers) testWebhook(r *http.Request) (any, error) {
	in := api.ReadInput(r)
	if err := in.Check(); err != nil {
		return nil, err
	}
	id, v, err := h.Webhooks.Test(r.Context(), r.PathValue("id"))
	return api.Reply{Status: http.StatusOK, Location: "/v1/activities/" + string(id), Body: client.TestDelivery{
		ID: string(id), State: string(v.State), Status: v.Status, Error: v.Err, Response: v.Response,
	}}, err
}
