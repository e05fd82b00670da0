package operator_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/api/contract"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
	"fedpost/internal/servers/circuit"
)

// tell tells n ends of an activity.
func (w *world) tell(id activity.ID, n int, r ledger.Recipient) {
	w.Helper()
	var ends []events.End
	for i := range n {
		r.Position, r.UpdatedAt = i, w.clock
		e, ok := events.EndOf(id, events.About{ID: "https://social.example/a", Type: "Create", Actor: "https://social.example/u"}, fmt.Sprintf("https://h%d.example/inbox", i), r)
		if !ok {
			w.Fatal("no event")
		}
		ends = append(ends, e)
	}
	if err := w.store.TellEnds(w.Context(), ends); err != nil {
		w.Fatal(err)
	}
}

func TestEventsAreReadPageByPage(t *testing.T) {
	w := newWorld(t)
	var page contract.Events
	w.must("GET", "/v1/events", "", &page)
	if len(page.Events) != 0 || page.Next == "" || page.More {
		t.Errorf("%+v", page)
	}
	gone, dead := w.newID(), w.newID()
	w.tell(gone, 7, ledger.Recipient{State: activity.Failed, LastStatus: 410, LastError: "410 Gone"})
	w.change(circuit.HostKey("down.example"), func(s circuit.State) circuit.State {
		s.Phase, s.Since, s.DownSince, s.Why = circuit.Unhealthy, w.clock, w.clock, "503"
		return s
	})
	w.tell(dead, 4, ledger.Recipient{State: activity.Dead, LastStatus: 500})
	kinds := map[events.Kind]int{}
	ids := map[string]bool{}
	next := page.Next
	for more := true; more; {
		w.must("GET", "/v1/events?limit=5&after="+url.QueryEscape(next), "", &page)
		for _, e := range page.Events {
			kinds[e.Type]++
			ids[e.ID] = true
			if e.Type == events.RecipientGone && (e.Count != 1 || !e.Since.Equal(w.clock) || e.Status != 410 || e.Activity.Actor == "" || e.ActivityID != string(gone) || !strings.HasPrefix(e.Inbox, "https://"+e.Host)) {
				t.Errorf("%+v", e)
			}
			if e.Type == events.ServerUnhealthy && (e.Host != "down.example" || e.Reason != "503" || e.Since.IsZero() || e.Activity != nil) {
				t.Errorf("%+v", e)
			}
		}
		next, more = page.Next, page.More
	}
	if kinds[events.RecipientGone] != 7 || kinds[events.RecipientDead] != 4 || kinds[events.ServerUnhealthy] != 1 || len(ids) != 12 {
		t.Errorf("%v", kinds)
	}
	w.must("GET", "/v1/events?type=recipient.dead,server.unhealthy", "", &page)
	if len(page.Events) != 5 {
		t.Errorf("%d events of two types", len(page.Events))
	}
	w.must("GET", "/v1/events?after=now", "", &page)
	if len(page.Events) != 0 || page.More || page.Next != next {
		t.Errorf("after now: %+v", page)
	}
}

// TestRecentEventsEndTheFeed: the newest are among them, however many there are.
func TestRecentEventsEndTheFeed(t *testing.T) {
	w := newWorld(t)
	var page contract.Events
	w.must("GET", "/v1/events?after=recent", "", &page)
	if len(page.Events) != 0 || page.More {
		t.Errorf("an empty feed has %+v", page)
	}
	var last string
	for i := range 200 {
		w.clock = start.Add(time.Duration(i) * time.Minute)
		id := w.newID()
		w.tell(id, 1, ledger.Recipient{State: activity.Dead, LastStatus: 500})
		last = string(id)
	}
	w.must("GET", "/v1/events?after=recent&limit=1000", "", &page)
	if n := len(page.Events); n < 12 || n > 96 || page.More || page.Events[n-1].ActivityID != last {
		t.Errorf("%d events, more %t", len(page.Events), page.More)
	}
	var all contract.Events
	w.must("GET", "/v1/events?limit=1000", "", &all)
	if len(all.Events) != 200 || all.Next != page.Next {
		t.Errorf("%d events in all, %q and %q", len(all.Events), all.Next, page.Next)
	}
}

func TestWhatIsWrongWithARequestForEventsIsSaid(t *testing.T) {
	w := newWorld(t)
	w.refused(400, "was given out as next", "GET", "/v1/events?after=x", "")
	w.refused(400, "types are: recipient.gone, ", "GET", "/v1/events?type=recipient.gone,gone", "")
	w.refused(400, "types are", "GET", "/v1/events?type=recipient.gone,", "")
	w.refused(400, "between 0 and 20", "GET", "/v1/events?wait=21", "")
	w.refused(400, "between 1 and 1000", "GET", "/v1/events?limit=0", "")
	w.refused(400, "no query parameter", "GET", "/v1/events?cursor=x", "")
	w.outage(func() {
		w.refused(503, "cannot be reached", "GET", "/v1/events", "")
		w.refused(503, "cannot be reached", "GET", "/v1/events?after=now", "")
	})
}

func TestWebhooksAreSetShownAndDeleted(t *testing.T) {
	w := newWorld(t)
	var one contract.Webhook
	w.must("PUT", "/v1/webhooks/app", `{"url":"https://Social.example:443/hooks","types":["recipient.gone"],"batch":true}`, &one)
	secret := one.Secret
	if one.URL != "https://social.example/hooks" || secret == "" || one.State != contract.WebhookEnabled || !one.Batch {
		t.Errorf("%+v", one)
	}
	w.must("PUT", "/v1/webhooks/app", `{"url":"https://social.example/hooks"}`, &one)
	if one.Secret != "" || one.Batch || len(one.Types) != 0 {
		t.Errorf("changed: %+v", one)
	}
	w.must("PUT", "/v1/webhooks/app", `{"url":"https://social.example/hooks","rotateSecret":true}`, &one)
	if one.Secret == "" || one.Secret == secret {
		t.Errorf("rotated: %+v", one)
	}
	w.must("GET", "/v1/webhooks/app", "", &one)
	if one.Secret != "" {
		t.Error("the secret is shown")
	}
	var test contract.WebhookTest
	w.must("POST", "/v1/webhooks/app/test", "", &test)
	var status contract.Status
	w.must("GET", "/v1/activities/"+test.ID, "", &status)
	if status.Status != "queued" {
		t.Errorf("%+v", status)
	}
	var all contract.Webhooks
	if w.must("GET", "/v1/webhooks", "", &all); len(all.Webhooks) != 1 {
		t.Errorf("%+v", all)
	}
	if a := w.do("DELETE", "/v1/webhooks/app", ""); a.status != 204 || len(a.body) != 0 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if w.must("GET", "/v1/webhooks", "", &all); len(all.Webhooks) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestWhatIsWrongWithAWebhookIsSaid(t *testing.T) {
	w := newWorld(t)
	for body, says := range map[string]string{
		`{}`:                               "/url",
		`{"url":"http://a.example/"}`:      "is not https",
		`{"url":"ftp://a.example/"}`:       "/url",
		`{"url":"https://u:p@a.example/"}`: "/url",
		`{"url":7}`:                        "/url",
		`{"url":"https://a.example/","types":["gone"]}`:                                                      "/types/0",
		`{"url":"https://a.example/","types":[]}`:                                                            "/types",
		`{"url":"https://a.example/","batch":"yes"}`:                                                         "/batch",
		`{"url":"https://a.example/","secret":"hush"}`:                                                       "is no secret",
		`{"url":"https://a.example/","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw","rotateSecret":true}`: "leave out one",
		`{"url":"https://a.example/","disabled":true}`:                                                       "/disabled",
		`["https://a.example/"]`:                                                                             "object",
	} {
		w.refused(400, says, "PUT", "/v1/webhooks/app", body)
	}
	w.refused(400, "letters, digits", "PUT", "/v1/webhooks/a%20b", `{"url":"https://a.example/"}`)
	w.refused(404, "no webhook", "GET", "/v1/webhooks/app", "")
	w.refused(404, "no webhook", "DELETE", "/v1/webhooks/app", "")
	w.refused(404, "no webhook", "POST", "/v1/webhooks/app/test", "")
	w.refused(400, "not for requests of others", "POST", "/v1/activities", `{"protocol":"webhook","activity":{"type":"Create","actor":"https://a.example/u"},"recipients":["https://a.example/"]}`)
	w.outage(func() {
		w.refused(503, "cannot be reached", "GET", "/v1/webhooks", "")
		w.refused(503, "cannot be reached", "GET", "/v1/webhooks/app", "")
		w.refused(503, "cannot be reached", "PUT", "/v1/webhooks/app", `{"url":"https://a.example/"}`)
		w.refused(503, "cannot be reached", "DELETE", "/v1/webhooks/app", "")
		w.refused(503, "cannot be reached", "POST", "/v1/webhooks/app/test", "")
	})
	var none contract.Webhooks
	if w.must("GET", "/v1/webhooks", "", &none); len(none.Webhooks) != 0 {
		t.Errorf("stored: %+v", none)
	}
}
