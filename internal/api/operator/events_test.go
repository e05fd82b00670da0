package operator_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
	"fedpost/internal/servers/circuit"
)

// appendEnds appends n ends of an activity.
func (w *world) appendEnds(id activity.ID, n int, r ledger.Recipient) {
	w.Helper()
	var ends []events.End
	for i := range n {
		r.Position, r.UpdatedAt, r.Target.Inbox = i, w.clock, fmt.Sprintf("https://h%d.example/inbox", i)
		e, ok := events.EndOf(id, events.About{ID: "https://social.example/a", Type: "Create", Actor: "https://social.example/u"}, r)
		if !ok {
			w.Fatal("no event")
		}
		ends = append(ends, e)
	}
	if err := w.store.AppendEnds(w.Context(), ends); err != nil {
		w.Fatal(err)
	}
}

func TestEventsAreReadPageByPage(t *testing.T) {
	w := newWorld(t)
	var page client.Events
	w.must("GET", "/v1/events", "", &page)
	if len(page.Events) != 0 || page.Next == "" || page.More {
		t.Errorf("the first page is %+v; want no event, and what is next", page)
	}
	gone, dead := w.newID(), w.newID()
	w.appendEnds(gone, 7, ledger.Recipient{State: activity.Failed, LastStatus: 410, LastError: "410 Gone"})
	w.change(circuit.HostKey("down.example"), func(s circuit.State) circuit.State {
		s.Phase, s.Since, s.DownSince, s.Why = circuit.Unhealthy, w.clock, w.clock, "503"
		return s
	})
	w.appendEnds(dead, 4, ledger.Recipient{State: activity.Dead, LastStatus: 500})
	kinds := map[string]int{}
	ids := map[string]bool{}
	next := page.Next
	for more := true; more; {
		w.must("GET", "/v1/events?limit=5&after="+url.QueryEscape(next), "", &page)
		for _, e := range page.Events {
			kinds[e.Type]++
			ids[e.ID] = true
			if e.Type == client.RecipientGone && (e.Count != 1 || !e.Since.Equal(w.clock) || e.Status != 410 || e.Activity.Actor == "" || e.ActivityID != string(gone) || !strings.HasPrefix(e.Inbox, "https://"+e.Host)) {
				t.Errorf("the event of who is gone is %+v; want one of activity %s with status 410", e, gone)
			}
			if e.Type == client.ServerUnhealthy && (e.Host != "down.example" || e.Reason != "503" || e.Since.IsZero() || e.Activity != nil) {
				t.Errorf("the event of a server is %+v; want down.example with reason 503 and no activity", e)
			}
		}
		next, more = page.Next, page.More
	}
	if kinds[client.RecipientGone] != 7 || kinds[client.RecipientDead] != 4 || kinds[client.ServerUnhealthy] != 1 || len(ids) != 12 {
		t.Errorf("events by type are %v, ids %d; want 7 gone, 4 dead, 1 unhealthy server, 12 ids", kinds, len(ids))
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
	var page client.Events
	w.must("GET", "/v1/events?after=recent", "", &page)
	if len(page.Events) != 0 || page.More {
		t.Errorf("an empty feed has %+v", page)
	}
	var last string
	for i := range 200 {
		w.clock = start.Add(time.Duration(i) * time.Minute)
		id := w.newID()
		w.appendEnds(id, 1, ledger.Recipient{State: activity.Dead, LastStatus: 500})
		last = string(id)
	}
	w.must("GET", "/v1/events?after=recent&limit=1000", "", &page)
	if n := len(page.Events); n < 12 || n > 96 || page.More || page.Events[n-1].ActivityID != last {
		t.Errorf("%d events, more %t", len(page.Events), page.More)
	}
	var all client.Events
	w.must("GET", "/v1/events?limit=1000", "", &all)
	if len(all.Events) != 200 || all.Next != page.Next {
		t.Errorf("%d events in all, %q and %q", len(all.Events), all.Next, page.Next)
	}
}

func TestWhatIsWrongWithARequestForEventsIsSaid(t *testing.T) {
	w := newWorld(t)
	w.refused(400, "not the value of next in an earlier answer", "GET", "/v1/events?after=x", "")
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
	synctest.Test(t, func(t *testing.T) { // a test waits for its answer
		w := newWorld(t)
		var one client.Webhook
		w.must("PUT", "/v1/webhooks/app", `{"url":"https://Social.example:443/hooks","types":["recipient.gone"],"batch":true}`, &one)
		secret := one.Secret
		if one.URL != "https://social.example/hooks" || secret == "" || one.State != client.WebhookEnabled || !one.Batch {
			t.Errorf("the webhook is %+v; want it enabled, in batches, with a secret", one)
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
		var test client.TestDelivery
		w.must("POST", "/v1/webhooks/app/test", "", &test)
		var status client.Status
		w.must("GET", "/v1/activities/"+test.ID, "", &status)
		if status.Status != "queued" || test.State != client.StateQueued {
			t.Errorf("the test is %+v, its activity %+v; want both queued, as nothing delivers here", test, status)
		}
		var all client.Webhooks
		if w.must("GET", "/v1/webhooks", "", &all); len(all.Webhooks) != 1 {
			t.Errorf("webhooks are %+v, want 1", all)
		}
		if a := w.do("DELETE", "/v1/webhooks/app", ""); a.status != 204 || len(a.body) != 0 {
			t.Errorf("DELETE of a webhook is answered %d %s, want 204 without a body", a.status, a.body)
		}
		if w.must("GET", "/v1/webhooks", "", &all); len(all.Webhooks) != 0 {
			t.Errorf("webhooks are %+v, want none", all)
		}
	})
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
		`{"url":"https://a.example/","secret":"hush"}`:                                                       "is not a secret",
		`{"url":"https://a.example/","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw","rotateSecret":true}`: "leave out secret",
		`{"url":"https://a.example/","disabled":true}`:                                                       "/disabled",
		`["https://a.example/"]`:                                                                             "object",
	} {
		w.refused(400, says, "PUT", "/v1/webhooks/app", body)
	}
	w.refused(400, "letters, digits", "PUT", "/v1/webhooks/a%20b", `{"url":"https://a.example/"}`)
	w.refused(404, "no webhook", "GET", "/v1/webhooks/app", "")
	w.refused(404, "no webhook", "DELETE", "/v1/webhooks/app", "")
	w.refused(404, "no webhook", "POST", "/v1/webhooks/app/test", "")
	w.refused(400, "not for requests of the API", "POST", "/v1/activities", `{"protocol":"webhook","activity":{"type":"Create","actor":"https://a.example/u"},"recipients":["https://a.example/"]}`)
	w.outage(func() {
		w.refused(503, "cannot be reached", "GET", "/v1/webhooks", "")
		w.refused(503, "cannot be reached", "GET", "/v1/webhooks/app", "")
		w.refused(503, "cannot be reached", "PUT", "/v1/webhooks/app", `{"url":"https://a.example/"}`)
		w.refused(503, "cannot be reached", "DELETE", "/v1/webhooks/app", "")
		w.refused(503, "cannot be reached", "POST", "/v1/webhooks/app/test", "")
	})
	var none client.Webhooks
	if w.must("GET", "/v1/webhooks", "", &none); len(none.Webhooks) != 0 {
		t.Errorf("stored: %+v", none)
	}
}
