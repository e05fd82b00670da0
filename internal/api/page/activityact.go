package page

import (
	"net/http"
	"net/url"

	"fedpost/client"
)

func aboutActivity(act string, a client.Status) (question, bool) {
	q, ok := map[string]question{
		"cancel": {
			Title: "Cancel this activity?", Yes: "Cancel the activity", Danger: true,
			Says: []string{
				"Recipients that do not have it yet will not get it. " + thousands(a.Counts["delivered"]) + " have it already and keep it.",
				"This cannot be undone.",
			},
		},
		"forget": {
			Title: "Delete this activity from fedpost?", Yes: "Delete it for good", Danger: true,
			Says: []string{
				"The activity is cancelled, and its body and its list of recipients are deleted.",
				"Recipients that have it already keep it. To take it back, send a Delete activity.",
			},
		},
		"retry": {
			Title: "Retry this activity?", Yes: "Retry",
			Says: []string{
				thousands(a.Counts["failed"]) + " failed and " + thousands(a.Counts["dead"]) + " dead recipients are retried, with all attempts anew.",
				"A server that refused the activity for good will most likely refuse it again.",
			},
		},
	}[act]
	return q, ok
}

func (p *Page) askActivity(v *visit) error {
	id, act := v.r.PathValue("id"), v.r.PathValue("act")
	var a client.Status
	if err := v.get(activityPath(id), url.Values{"limit": {"1"}}, &a); err != nil {
		return err
	}
	q, ok := aboutActivity(act, a)
	if !ok {
		return noSuchAction()
	}
	q.Back = "/activities/" + url.PathEscape(id)
	q.Where = q.Back + "/" + act
	return v.show("ask", view{Title: q.Title, Nav: "activities", Data: q})
}

func noSuchAction() error {
	return refuse(http.StatusNotFound, "There is no such action.")
}

func (p *Page) actActivity(v *visit) error {
	id, act := v.r.PathValue("id"), v.r.PathValue("act")
	back := "/activities/" + url.PathEscape(id)
	switch act {
	case "cancel":
		if err := v.do(http.MethodPost, activityPath(id)+"/cancel", nil, nil); err != nil {
			return err
		}
		return v.back(back, "cancel")
	case "forget":
		if err := v.do(http.MethodDelete, activityPath(id), nil, nil); err != nil {
			return err
		}
		return v.back("/activities", "forget-activity")
	case "retry":
		done, err := v.retryActivity(id)
		if err != nil {
			return err
		}
		return v.back(back, done)
	}
	return noSuchAction()
}

// retrySteps is how many requests one retry makes at most, as the visitor waits.
const retrySteps = 20

func (v *visit) retryActivity(id string) (done string, err error) {
	var body client.Retry
	retried, unavailable := 0, 0
	for range retrySteps {
		var r client.RetriedActivity
		if err := v.do(http.MethodPost, activityPath(id)+"/retry", body, &r); err != nil {
			return "", err
		}
		retried, unavailable = retried+r.Retried, unavailable+r.Unavailable
		if body.Cursor = r.NextCursor; r.NextCursor == "" {
			break
		}
	}
	switch {
	case body.Cursor != "":
		return "more", nil
	case retried == 0 && unavailable > 0:
		return "unavailable", nil
	case retried == 0:
		return "none", nil
	case unavailable > 0:
		return "some", nil
	}
	return "again", nil
}
