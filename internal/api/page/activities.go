package page

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"fedpost/internal/activity"
	"fedpost/internal/api/contract"
)

func (p *Page) activities(v *visit) error {
	if id := strings.TrimSpace(v.r.URL.Query().Get("id")); id != "" {
		http.Redirect(v.w, v.r, "/activities/"+url.PathEscape(id), http.StatusSeeOther)
		return nil
	}
	v.show(http.StatusOK, "activities", view{Title: "Activities", Nav: "activities"})
	return nil
}

// oneActivity is the page of one activity.
type oneActivity struct {
	contract.Status
	Counted []counted
	Open    int // recipients that are not in a final state
	Next    string
	Actions []action
}

// counted is a state and how many recipients are in it.
type counted struct {
	State string
	N     int
}

func (p *Page) activity(v *visit) error {
	id := v.r.PathValue("id")
	var a oneActivity
	if err := v.get(activityPath(id), v.query("cursor"), &a.Status); err != nil {
		return err
	}
	for state, n := range a.Counts {
		a.Counted = append(a.Counted, counted{state, n})
		if !activity.State(state).Final() {
			a.Open += n
		}
	}
	slices.SortFunc(a.Counted, func(a, b counted) int { return cmp.Or(b.N-a.N, strings.Compare(a.State, b.State)) })
	here := "/activities/" + url.PathEscape(id)
	if a.NextCursor != "" {
		a.Next = here + "?" + url.Values{"cursor": {a.NextCursor}}.Encode()
	}
	if a.Counts["failed"]+a.Counts["dead"] > 0 {
		a.Actions = append(a.Actions, action{"retry", "Retry", here + "/retry", false})
	}
	if a.Open > 0 && a.Status.Status != "cancelled" {
		a.Actions = append(a.Actions, action{"cancel", "Cancel", here + "/cancel", true})
	}
	v.show(http.StatusOK, "activity", view{Title: "Activity " + clean(a.ID), Nav: "activities", Refresh: 10, Data: a})
	return nil
}

func activityPath(id string) string { return "/v1/activities/" + url.PathEscape(id) }

// query takes some parameters of the page's address over to the API.
func (v *visit) query(names ...string) url.Values {
	q := url.Values{}
	for _, name := range names {
		if s := strings.TrimSpace(v.r.URL.Query().Get(name)); s != "" {
			q.Set(name, s)
		}
	}
	return q
}
