package operator_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

const frida = "https://social.example/users/frida"

// hand hands over an activity, and returns fedpost's id for it.
func (w *world) hand(own, actor, more string) string {
	w.Helper()
	var a client.Accepted
	w.must("POST", "/v1/activities", fmt.Sprintf(`{"activity":{"type":"Create","id":%q,"actor":%q},"keyId":%q,"recipients":["https://a.example/inbox","https://b.example/inbox"],"delay":60%s}`,
		own, actor, frida+"#main-key", more), &a)
	return a.ID
}

func (w *world) found(q url.Values) (ids []string, all []client.FoundActivity) {
	w.Helper()
	for {
		var page client.Activities
		w.must("GET", "/v1/activities?"+q.Encode(), "", &page)
		for _, a := range page.Activities {
			ids, all = append(ids, a.ID), append(all, a)
		}
		if page.NextCursor == "" {
			return ids, all
		}
		q.Set("cursor", page.NextCursor)
	}
}

func TestActivitiesAreFoundByTheirOwnIDActorTimeAndState(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/v1/keys", `{"id":"`+frida+`#main-key","type":"ed25519"}`, new(client.Key))
	const own = "https://social.example/notes/1/activity?x=ü&y"
	first := w.hand(own, frida, "")
	w.clock = w.clock.Add(24 * time.Hour)
	second := w.hand("https://social.example/notes/2", frida, "")
	w.clock = w.clock.Add(time.Hour)
	forwarded := w.hand("https://other.example/notes/3", "https://other.example/users/gus", `,"allowKeyOfOther":true`)
	w.must("POST", "/v1/activities/"+second+"/cancel", "", new(client.Cancelled))
	refused := string(w.refusedBy("https://c.example/inbox")) // not listed: it was recorded by hand
	day := w.clock.Add(-12 * time.Hour).Format(time.RFC3339)
	for name, c := range map[string]struct {
		q    url.Values
		want []string
	}{
		"all":                  {url.Values{}, []string{forwarded, second, first}},
		"one by one":           {url.Values{"limit": {"1"}}, []string{forwarded, second, first}},
		"fedpost's id":         {url.Values{"id": {second}}, []string{second}},
		"no id of fedpost":     {url.Values{"id": {"01KAJ5M3ZX8Q5Y0V3T9B6C2D4E"}}, nil},
		"own id":               {url.Values{"activityId": {own}}, []string{first}},
		"actor":                {url.Values{"actor": {frida}}, []string{forwarded, second, first}},
		"a forwarded actor":    {url.Values{"actor": {"https://other.example/users/gus"}}, []string{forwarded}},
		"another actor":        {url.Values{"actor": {"https://social.example/users/nobody"}}, nil},
		"since":                {url.Values{"since": {day}}, []string{forwarded, second}},
		"actor since":          {url.Values{"actor": {frida}, "since": {day}}, []string{forwarded, second}},
		"status":               {url.Values{"state": {"queued"}}, []string{forwarded, first}},
		"a recipient's state":  {url.Values{"state": {"cancelled"}}, []string{second}},
		"nobody in that state": {url.Values{"state": {"failed"}}, nil},
		"own id, another time": {url.Values{"activityId": {own}, "since": {day}}, nil},
	} {
		if got, _ := w.found(c.q); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v (refused by hand: %s)", name, got, c.want, refused)
		}
	}
	_, all := w.found(url.Values{"activityId": {own}})
	want := client.FoundActivity{
		ID: first, ActivityID: own, Actor: frida, Type: "Create", KeyID: frida + "#main-key", Bytes: 116, CreatedAt: start, Status: "queued", Counts: map[string]int{"queued": 2},
	}
	if len(all) != 1 || fmt.Sprint(all[0]) != fmt.Sprint(want) {
		t.Errorf("found %+v, want %+v", all, want)
	}
}

func TestAnActivityIsShownWithItsBodyIfThatIsKept(t *testing.T) {
	w := newWorld(t)
	id := w.refusedBy("https://a.example/1") // keeps it
	lost := w.newID()
	for _, id := range []activity.ID{id, lost} {
		if err := w.store.ListActivities(t.Context(), []ledger.Listed{{ID: id, Sender: frida, CreatedAt: w.clock, Forget: w.clock.Add(time.Hour)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.store.CreateActivity(t.Context(), ledger.Record{ID: lost, CreatedAt: w.clock, Forget: w.clock.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{"id=" + string(id) + "&body=true": "{}", "id=" + string(id): "", "id=" + string(lost) + "&body=true": ""} {
		var page client.Activities
		if w.must("GET", "/v1/activities?"+query, "", &page); len(page.Activities) != 1 || page.Activities[0].Body != want {
			t.Errorf("%s: %+v, want the body %q", query, page.Activities, want)
		}
	}
	w.refused(http.StatusBadRequest, "needs id", "GET", "/v1/activities?body=true", "")
}

func TestASearchByStateFillsItsPage(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/v1/keys", `{"id":"`+frida+`#main-key","type":"ed25519"}`, new(client.Key))
	var cancelled []string
	for n := range 5 {
		id := w.hand(fmt.Sprint("https://social.example/notes/", n), frida, "")
		w.must("POST", "/v1/activities/"+id+"/cancel", "", new(client.Cancelled))
		cancelled = append([]string{id}, cancelled...)
		w.clock = w.clock.Add(time.Second)
	}
	for n := range 2 * 101 {
		w.hand(fmt.Sprint("https://social.example/others/", n), frida, "")
		w.clock = w.clock.Add(time.Second)
	}
	for _, c := range []struct{ limit, first int }{{2, 2}, {5, 5}, {20, 5}} {
		var page client.Activities
		w.must("GET", fmt.Sprintf("/v1/activities?state=cancelled&limit=%d", c.limit), "", &page)
		if len(page.Activities) != c.first || c.limit > 5 && page.NextCursor != "" {
			t.Errorf("limit %d: a page of %d, cursor %q; want %d", c.limit, len(page.Activities), page.NextCursor, c.first)
		}
		if got, _ := w.found(url.Values{"state": {"cancelled"}, "limit": {fmt.Sprint(c.limit)}}); !slices.Equal(got, cancelled) {
			t.Errorf("limit %d: %v, want %v", c.limit, got, cancelled)
		}
	}
}

func TestWhatIsWrongWithASearchIsSaid(t *testing.T) {
	w := newWorld(t)
	for query, says := range map[string]string{
		"actr=x":                            "no query parameter",
		"state=lost":                        "one of: delivering",
		"since=yesterday":                   "since is",
		"since=2026-01-01T00:00:00Z":        "60 days",
		"id=https://social.example/notes/1": "26 letters",
		"limit=101":                         "between 1 and 100",
		"cursor=x":                          "nextCursor",
		"activityId=" + fmt.Sprintf("%02049d", 0): "2049 bytes",
	} {
		w.refused(http.StatusBadRequest, says, "GET", "/v1/activities?"+query, "")
	}
	w.outage(func() { w.refused(http.StatusServiceUnavailable, "cannot be reached", "GET", "/v1/activities", "") })
}

func TestRecipientsAreListedByStateAndHost(t *testing.T) {
	w := newWorld(t)
	id := w.refusedBy("https://a.example/1", "https://b.example:8443/2", "https://a.example/3")
	for query, want := range map[string][]string{
		"":                             {"https://a.example/1", "https://b.example:8443/2", "https://a.example/3"},
		"?state=failed&limit=2":        {"https://a.example/1", "https://b.example:8443/2", "https://a.example/3"},
		"?host=A.example.&limit=1":     {"https://a.example/1", "https://a.example/3"},
		"?host=b.example:8443&limit=1": {"https://b.example:8443/2"},
		"?host=b.example":              nil,
		"?state=dead":                  nil,
		"?state=failed&host=a.example": {"https://a.example/1", "https://a.example/3"},
	} {
		var got []string
		for next := query; ; {
			var s client.Status
			w.must("GET", "/v1/activities/"+string(id)+next, "", &s)
			if s.Counts["failed"] != 3 {
				t.Errorf("%s: counts %v", query, s.Counts)
			}
			for _, r := range s.Recipients {
				got = append(got, r.Inbox)
			}
			if s.NextCursor == "" {
				break
			}
			next = "?cursor=" + s.NextCursor
			if query != "" {
				next = query + "&cursor=" + s.NextCursor
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	w.refused(http.StatusBadRequest, "one of: queued", "GET", "/v1/activities/"+string(id)+"?state=lost", "")
	for _, host := range []string{"a+b", "a.example/x", "@a.example", "a.example:x", "a.example:0"} {
		w.refused(http.StatusBadRequest, "not a host", "GET", "/v1/activities/"+string(id)+"?host="+host, "")
	}
}

func TestWhatWaitsForAServerIsCountedAndListed(t *testing.T) {
	w := newWorld(t)
	const host, inbox = "down.example", "https://up.example/inbox"
	park := func(key, to string) {
		a := activity.Activity{ID: w.newID(), Type: "Create", Body: "{}", Options: activity.Options{KeyID: frida + "#main-key"}, CreatedAt: w.clock}
		err := w.store.Park(t.Context(), []parking.Parked{{
			Key: key, Activity: a, Since: w.clock, GiveUp: w.clock.Add(7 * 24 * time.Hour),
			Delivery: message.Delivery{Targets: []activity.Target{{Inbox: to, Stands: 1}}, Attempts: 3, Generation: 1},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range 12 {
		park(circuit.HostKey(host), fmt.Sprintf("https://%s/users/%d/inbox", host, n))
	}
	park(circuit.InboxKey(inbox), inbox)
	for _, c := range []struct {
		server string
		limit  int
		want   int
	}{{host, 5, 12}, {"Down.Example.", 100, 12}, {"inbox:" + inbox, 1, 1}, {"up.example", 10, 0}} {
		seen := map[string]bool{}
		path := "/v1/servers/" + url.PathEscape(c.server) + fmt.Sprintf("/waiting?limit=%d", c.limit)
		for next := path; ; {
			var page client.Waiting
			w.must("GET", next, "", &page)
			if page.Count != c.want || page.AtLeast || len(page.Deliveries) > c.limit {
				t.Errorf("%s: %d waiting, %d on a page", c.server, page.Count, len(page.Deliveries))
			}
			for _, d := range page.Deliveries {
				if d.Attempts != 3 || !d.Since.Equal(start) || d.Type != "Create" || d.KeyID == "" || seen[d.Activity] {
					t.Errorf("listed %+v", d)
				}
				seen[d.Activity] = true
			}
			if page.NextCursor == "" {
				break
			}
			next = path + "&cursor=" + page.NextCursor
		}
		if len(seen) != c.want {
			t.Errorf("%s: %d listed, want %d", c.server, len(seen), c.want)
		}
	}
	w.refused(http.StatusBadRequest, "nextCursor", "GET", "/v1/servers/a.example/waiting?cursor=x", "")
	w.refused(http.StatusBadRequest, "between 1 and 200", "GET", "/v1/servers/a.example/waiting?limit=0", "")
	w.refused(http.StatusBadRequest, "no host name", "GET", "/v1/servers/a%20b/waiting", "")
	w.refused(http.StatusConflict, "wait for hosts", "GET", "/v1/servers/https:%2F%2Fpeer.example/waiting", "")
	w.refused(http.StatusConflict, "wait for hosts", "GET", "/v1/servers/*.a.example/waiting", "")
	w.outage(func() {
		w.refused(http.StatusServiceUnavailable, "cannot be reached", "GET", "/v1/servers/a.example/waiting", "")
	})

	var all client.Stats
	w.must("GET", "/v1/stats?waiting=true", "", &all)
	if all.Waiting == nil || *all.Waiting != (client.WaitingInAll{}) {
		t.Errorf("no state says that anything is parked: %+v", all.Waiting)
	}
	for _, key := range []string{circuit.HostKey(host), circuit.InboxKey(inbox)} {
		w.change(key, func(s circuit.State) circuit.State { return s.Park(circuit.Default(), w.clock) })
	}
	var listed client.Servers
	w.must("GET", "/v1/servers?waiting=true", "", &listed)
	numbers := map[string]client.WaitingInAll{}
	for _, s := range listed.Servers {
		numbers[s.Name] = *s.Waiting
	}
	if want := map[string]client.WaitingInAll{host: {Count: 12}, "inbox:" + inbox: {Count: 1}}; !maps.Equal(numbers, want) {
		t.Errorf("waiting by server: %v, want %v", numbers, want)
	}
	var one client.Server
	if w.must("GET", "/v1/servers/"+host+"?waiting=true", "", &one); one.Waiting == nil || *one.Waiting != (client.WaitingInAll{Count: 12}) {
		t.Errorf("waiting for %s: %+v, want 12", host, one.Waiting)
	}
	w.refused(http.StatusBadRequest, "one of: true", "GET", "/v1/servers/"+host+"?waiting=1", "")
	w.must("GET", "/v1/stats?waiting=true", "", &all)
	if all.Waiting == nil || *all.Waiting != (client.WaitingInAll{Count: 13}) {
		t.Errorf("waiting in all: %+v", all.Waiting)
	}
	var plain client.Stats
	if w.must("GET", "/v1/stats", "", &plain); plain.Waiting != nil {
		t.Errorf("counted unasked: %+v", plain.Waiting)
	}
	w.refused(http.StatusBadRequest, "one of: true", "GET", "/v1/stats?waiting=1", "")
}
