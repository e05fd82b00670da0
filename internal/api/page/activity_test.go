package page_test

import (
	"slices"
	"strings"
	"testing"

	"fedpost/client"
)

func TestARetryOfAnActivityGoesOnUntilItIsOver(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	v.get("/activities/" + anActivity + "/retry")
	at := "POST /v1/activities/" + anActivity + "/retry"
	for words, r := range map[string]client.RetriedActivity{
		"There are more":           {Retried: 500, NextCursor: "bmV4dA"},
		"except those":             {Retried: 5, Unavailable: 1},
		"Nothing was retried":      {Unavailable: 1},
		"Nothing matched; nothing": {},
	} {
		s.api.set(at, r)
		v.says(v.post("/activities/"+anActivity+"/retry"), 200, words)
		did := trimmed(s.api.did())
		if r.NextCursor == "" && len(did) != 1 || r.NextCursor != "" && (len(did) != 20 || did[1] != at+` {"cursor":"bmV4dA"}`) {
			t.Errorf("%q: %q", words, did)
		}
	}
}

func TestAnActivityIsFoundByItsID(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	v.says(v.get("/activities?id=+"+anActivity), 200, "4\u202f711 delivered", "203 parked", `href="/servers/mastodon.down.example"`, "in 17 min", "in 40 s", "404", "(20 recipients)",
		`href="/activities/`+anActivity+`?cursor=bmV4dA"`)
	v.get("/activities/" + anActivity + "?cursor=bmV4dA")
	if last := s.api.asked[len(s.api.asked)-2]; last != "/v1/activities/"+anActivity+"?cursor=bmV4dA" {
		t.Errorf("asked %s", last)
	}
}

func TestAnActivityIsHeadedByWhatItIs(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	v.says(v.get("/activities/"+anActivity), 200, "Create by https://social.example/users/frida</h1>", "statuses/114620/activity<", "statuses/114620<", "1\u202f734 bytes",
		`href="/activities?actor=https%3a%2f%2fsocial.example%2fusers%2ffrida"`, anActivity, "#main-key")
	asked := "/v1/activities?body=true&id=" + anActivity
	s.api.set(asked, client.Activities{Activities: []client.FoundActivity{{ID: anActivity, Body: "{\"a\":\"<b>\u202e\"}"}}})
	v.says(v.get("/activities/"+anActivity+"?body=true"), 200, "<pre class=\"body\">{\n  &#34;a&#34;: &#34;&lt;b&gt;\ufffd&#34;\n}</pre>")
	s.api.set(asked, client.Activities{Activities: []client.FoundActivity{{ID: anActivity}}})
	v.says(v.get("/activities/"+anActivity+"?body=true"), 200, "is no longer stored")
	s.api.set("/v1/activities?id="+anActivity, client.Activities{})
	v.says(v.get("/activities/"+anActivity), 200, "Activity "+anActivity+"</h1>")
}

func TestActivitiesAreSought(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	for query, want := range map[string]string{
		"":                      "/v1/activities?since=2026-11-21T03%3A08%3A12Z",
		"?since=60d&state=dead": "/v1/activities?since=2026-09-23T03%3A08%3A12Z&state=dead",
		"?since=nonsense":       "/v1/activities?since=2026-11-21T03%3A08%3A12Z",
		"?actor=https%3A%2F%2Fsocial.example%2Fusers%2Ffrida&since=1h": "/v1/activities?actor=https%3A%2F%2Fsocial.example%2Fusers%2Ffrida&since=2026-11-22T02%3A08%3A12Z",
		"?id=https%3A%2F%2Fsocial.example%2Fa%2F1&cursor=x":            "/v1/activities?activityId=https%3A%2F%2Fsocial.example%2Fa%2F1&cursor=x",
	} {
		s.api.asked = nil
		v.says(v.get("/activities"+query), 200, "https://social.example/users/frida/statuses/114620/activity", "4\u202f001 delivered", "Next page")
		if len(s.api.asked) != 1 || s.api.asked[0] != want {
			t.Errorf("%s asks %q, want %q", query, s.api.asked, want)
		}
	}
	v.says(v.get("/activities?state=dead"), 200, `href="/activities?cursor=bmV4dA&amp;state=dead"`, `<option value="dead" selected>`)
	s.api.set("/v1/activities", client.Activities{Activities: []client.FoundActivity{}})
	v.says(v.get("/activities"), 200, "None.")
}

func TestRecipientsAreSelectedByState(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	s.api.asked = nil
	v.says(v.get("/activities/"+anActivity+"?state=parked&host=a.example"), 200, `href="?state=parked" aria-current="true"`, "Show all recipients",
		`href="/activities/`+anActivity+`?cursor=bmV4dA&amp;host=a.example&amp;state=parked"`)
	if want := "/v1/activities/" + anActivity + "?host=a.example&state=parked"; s.api.asked[0] != want {
		t.Errorf("asked %q, want %q", s.api.asked, want)
	}
}

func TestWhatWaitsIsShownAndWhy(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	v.says(v.get("/"), 200, `<a href="/servers?phase=waiting">10`+"\u202f000+")
	p := v.get("/servers?phase=waiting")
	v.says(p, 200, "mastodon.down.example", "second.example", "rate limit: 5 a minute")
	if strings.Contains(p.text, "gone.example") {
		t.Error("a server is shown for which nothing waits")
	}
	v.says(v.get("/servers/mastodon.down.example"), 200, "more than 10\u202f000", "https://mastodon.down.example/users/u3/inbox", "in 6 d 13 h", `href="?waiting=bmV4dA"`, "in order of &lt;script")
	s.api.asked = nil
	v.get("/servers/mastodon.down.example?waiting=bmV4dA")
	if !slices.Contains(s.api.asked, "/v1/servers/mastodon.down.example/waiting?cursor=bmV4dA&limit=20") {
		t.Errorf("asked %q", s.api.asked)
	}
}
