package operator

import (
	"errors"
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

// WebhookRoutes are the routes of webhooks. plain allows http.
func WebhookRoutes(r webhook.Registry, plain bool) []api.Route {
	h := webhookHandlers{r, plain}
	return []api.Route{
		route("GET /v1/webhooks", h.list),
		route("GET /v1/webhooks/{id}", h.get),
		route("PUT /v1/webhooks/{id}", h.put),
		route("DELETE /v1/webhooks/{id}", h.delete),
		route("POST /v1/webhooks/{id}/test", h.test),
	}
}

type webhookHandlers struct {
	webhooks webhook.Registry
	plain    bool
}

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

func (h webhookHandlers) list(w http.ResponseWriter, r *http.Request) error {
	if err := api.ReadQuery(r).Check(); err != nil {
		return err
	}
	all, err := h.webhooks.Webhooks(r.Context())
	if err != nil {
		return api.RecordProblem(err)
	}
	page := client.Webhooks{Webhooks: []client.Webhook{}}
	for _, one := range all {
		page.Webhooks = append(page.Webhooks, shownWebhook(one))
	}
	return api.Answer(w, r, http.StatusOK, page)
}

func noWebhook(err error) error {
	switch {
	case errors.Is(err, webhook.ErrNotFound):
		return problem.New(http.StatusNotFound, "There is no webhook of this id.")
	case errors.Is(err, webhook.ErrTooMany):
		return problem.New(http.StatusConflict, "There are 20 webhooks, which is the most. Delete one first.")
	}
	return api.RecordProblem(err)
}

func (h webhookHandlers) get(w http.ResponseWriter, r *http.Request) error {
	if err := api.ReadQuery(r).Check(); err != nil {
		return err
	}
	one, err := h.webhooks.Webhook(r.Context(), r.PathValue("id"))
	if err != nil {
		return noWebhook(err)
	}
	return api.Answer(w, r, http.StatusOK, shownWebhook(one))
}

func (h webhookHandlers) put(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if !webhook.ValidID(id) {
		return problem.New(http.StatusBadRequest, "The id in the path is not usable: give up to 64 letters, digits, - and _.")
	}
	in, err := api.ReadInput(r)
	if err != nil {
		return err
	}
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
		return err
	}
	one, secret, created, err := h.webhooks.Put(r.Context(), id, s)
	if err != nil {
		return noWebhook(err)
	}
	answer, status := shownWebhook(one), http.StatusOK
	answer.Secret = secret
	if created {
		status = http.StatusCreated
		w.Header().Set("Location", "/v1/webhooks/"+url.PathEscape(id))
	}
	return api.Answer(w, r, status, answer)
}

// target is the canonical URL of a webhook.
func (h webhookHandlers) target(in *api.Object, given string) string {
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
	if u, err := url.Parse(canonical); err != nil || u.Scheme != "https" && !h.plain {
		in.Fault("url", "is not https; plain http needs OUTBOUND_PLAIN_HTTP")
	}
	return canonical
}

func (h webhookHandlers) delete(w http.ResponseWriter, r *http.Request) error {
	if err := api.ReadQuery(r).Check(); err != nil {
		return err
	}
	if err := h.webhooks.DeleteWebhook(r.Context(), r.PathValue("id")); err != nil {
		return noWebhook(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h webhookHandlers) test(w http.ResponseWriter, r *http.Request) error {
	in, err := api.ReadInput(r)
	if err != nil {
		return err
	}
	if err := in.Check(); err != nil {
		return err
	}
	id, v, err := h.webhooks.Test(r.Context(), r.PathValue("id"))
	if err != nil {
		return noWebhook(err)
	}
	w.Header().Set("Location", "/v1/activities/"+string(id))
	return api.Answer(w, r, http.StatusOK, client.TestDelivery{
		ID: string(id), State: string(v.State), Status: v.Status, Error: v.Err, Response: v.Response,
	})
}
