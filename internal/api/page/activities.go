package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
)

type activityList struct {
	ID, Actor, Since, State string // what the visitor searches for
	Sinces, States          []choice
	Found                   []foundActivity
	Next                    string
}

type foundActivity struct {
	client.FoundActivity
	Counted []counted
}

// sinces are how far back activities are searched.
var sinces = []choice{{"1h", "the last hour"}, {"1d", "the last day"}, {"7d", "the last 7 days"}, {"60d", "the last 60 days"}}

var sinceTimes = map[string]time.Duration{"1h": time.Hour, "1d": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "60d": 60 * 24 * time.Hour}

var soughtStates = []choice{
	{"", "any"},
	{"dead", "some dead"},
	{"failed", "some failed"},
	{"parked", "some parked"},
	{"retrying", "some retrying"},
	{"queued", "some queued"},
	{"delivering", "under way"},
	{"done", "done"},
	{"cancelled", "cancelled"},
	{"expired", "some expired"},
	{"delivered", "some delivered"},
}

func (p *Page) activities(v *visit) error {
	q := v.query("id", "actor", "since", "state", "cursor")
	if id, err := activity.ParseID(q.Get("id")); err == nil {
		http.Redirect(v.w, v.r, "/activities/"+url.PathEscape(string(id)), http.StatusSeeOther)
		return nil
	}
	l := activityList{ID: q.Get("id"), Actor: q.Get("actor"), Since: q.Get("since"), State: q.Get("state"), Sinces: sinces, States: soughtStates}
	if _, ok := sinceTimes[l.Since]; !ok {
		l.Since = "1d"
	}
	query := v.query("actor", "state", "cursor")
	if l.ID != "" {
		query.Set("activityId", l.ID)
	} else {
		// A minute less than 60 days, as the API's clock may differ.
		query.Set("since", v.now().Add(time.Minute-sinceTimes[l.Since]).UTC().Format(time.RFC3339))
	}
	var page client.Activities
	if err := v.get("/v1/activities", query, &page); err != nil {
		return err
	}
	for _, a := range page.Activities {
		l.Found = append(l.Found, foundActivity{a, countedOf(a.Counts)})
	}
	if page.NextCursor != "" {
		q.Set("cursor", page.NextCursor)
		l.Next = "/activities?" + q.Encode()
	}
	return v.show("activities", view{Title: "Activities", Nav: "activities", Data: l})
}

type oneActivity struct {
	client.Status
	About   *client.FoundActivity // nil: it is in no list, such as a Sipher job
	Body    string                // if the visitor asked for it
	Asked   bool
	Counted []counted
	Open    int // recipients that are not in a final state
	// State and Host select the recipients that are listed.
	State, Host string
	Next        string
	Actions     []action
}

// counted is a state and how many recipients are in it.
type counted struct {
	State string
	N     int
}

func (p *Page) activity(v *visit) error {
	id := v.r.PathValue("id")
	var a oneActivity
	chosen := v.query("state", "host", "cursor")
	if err := v.get("/v1/activities/"+url.PathEscape(id), chosen, &a.Status); err != nil {
		return err
	}
	var found client.Activities
	about := v.query("body")
	a.Asked = about.Get("body") == "true"
	about.Set("id", id)
	if err := v.get("/v1/activities", about, &found); err != nil {
		return err
	}
	title := "Activity " + clean(a.ID)
	if len(found.Activities) > 0 {
		a.About = &found.Activities[0]
		a.Body = legible(a.About.Body)
		title = clean(cmp.Or(a.About.Type, "Activity")) + " by " + clean(a.About.Actor)
	}
	for state, n := range a.Counts {
		if !activity.State(state).Final() {
			a.Open += n
		}
	}
	a.Counted, a.State, a.Host = countedOf(a.Counts), chosen.Get("state"), chosen.Get("host")
	here := "/activities/" + url.PathEscape(id)
	if a.NextCursor != "" {
		chosen.Set("cursor", a.NextCursor)
		a.Next = here + "?" + chosen.Encode()
	}
	if a.Counts["failed"]+a.Counts["dead"] > 0 {
		a.Actions = append(a.Actions, action{"retry", "Retry", here + "/retry", false})
	}
	if a.Open > 0 && a.Status.Status != "cancelled" {
		a.Actions = append(a.Actions, action{"cancel", "Cancel", here + "/cancel", true})
	}
	a.Actions = append(a.Actions, action{"forget", "Delete from fedpost", here + "/forget", true})
	return v.show("activity", view{Title: title, Nav: "activities", Refresh: 10, Data: a})
}

// legible is indented JSON, without characters that could change the direction of the text.
func legible(body string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(body), "", "  ") != nil {
		return outcome.Clean(body, 3*len(body))
	}
	lines := strings.Split(b.String(), "\n")
	for i, line := range lines {
		text := strings.TrimLeft(line, " ")
		lines[i] = line[:len(line)-len(text)] + outcome.Clean(text, 3*len(text))
	}
	return strings.Join(lines, "\n")
}

// countedOf lists counts, the largest first.
func countedOf(counts map[string]int) (all []counted) {
	for state, n := range counts {
		if n > 0 {
			all = append(all, counted{state, n})
		}
	}
	slices.SortFunc(all, func(a, b counted) int { return cmp.Or(b.N-a.N, strings.Compare(a.State, b.State)) })
	return all
}

// query copies parameters of the page's address to a query of the API.
func (v *visit) query(names ...string) url.Values {
	q := url.Values{}
	for _, name := range names {
		if s := strings.TrimSpace(v.r.URL.Query().Get(name)); s != "" {
			q.Set(name, s)
		}
	}
	return q
}

func questionsAboutActivity(a client.Status) map[string]question {
	return map[string]question{
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
	}
}

func (p *Page) askActivity(v *visit) error {
	id := v.r.PathValue("id")
	a, err := v.api.Progress(v.r.Context(), id)
	if err != nil {
		return err
	}
	q, ok := questionsAboutActivity(a)[v.r.PathValue("act")]
	if !ok {
		return noSuchAction()
	}
	q.Back = "/activities/" + url.PathEscape(id)
	return v.ask("activities", q)
}

func noSuchAction() error {
	return refuse(http.StatusNotFound, "There is no such action.")
}

func (p *Page) actActivity(v *visit) error {
	id := v.r.PathValue("id")
	back := "/activities/" + url.PathEscape(id)
	switch v.r.PathValue("act") {
	case "cancel":
		_, err := v.api.Cancel(v.r.Context(), id)
		return v.back(back, "cancel", err)
	case "forget":
		return v.back("/activities", "forget-activity", v.api.Forget(v.r.Context(), id))
	case "retry":
		done, err := v.retryActivity(id)
		return v.back(back, done, err)
	}
	return noSuchAction()
}

// retrySteps is how many requests one retry makes at most, as the visitor waits.
const retrySteps = 20

func (v *visit) retryActivity(id string) (done string, err error) {
	var body client.Retry
	retried, unavailable := 0, 0
	for range retrySteps {
		r, err := v.api.Retry(v.r.Context(), id, body)
		if err != nil {
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
