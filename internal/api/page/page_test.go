package page_test

import (
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/api/page"
	"fedpost/internal/api/problem"
)

func TestNothingFromElsewhereIsAllowed(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	inline := regexp.MustCompile(`(?i)<script(?:>| [^>]*>[^<])|<style|\sstyle=|\son\w+=|javascript:|https?://[^"' ]*\.(?:css|js)`)
	for _, path := range []string{"/", "/servers", "/servers/hub.example", "/servers/hub.example/block", "/dead", "/activities/" + anActivity, "/servers/nowhere.example"} {
		p := v.get(path)
		policy := p.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s has the policy %q", path, policy)
		}
		if p.Header.Get("Cache-Control") != "no-store" || p.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s has the headers %v", path, p.Header)
		}
		// What strangers wrote is text by then, and may look like anything.
		own := strings.ReplaceAll(p.text, "onerror=alert(2)", "")
		if m := inline.FindString(own); m != "" {
			t.Errorf("%s has %q inline", path, m)
		}
	}
}

func TestTextsOfStrangersAreEscapedAndCut(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	for _, path := range []string{"/", "/servers", "/servers/inbox:https:%2F%2Fpleroma.example%2Fusers%2Fsomeone%2Finbox", "/dead", "/dead?host=hub.example", "/activities/" + anActivity} {
		p := v.get(path)
		v.says(p, 200, "&lt;script&gt;alert(1)")
		if strings.Contains(p.text, "<script>alert") || strings.Contains(p.text, "<img src=x") || strings.ContainsAny(p.text, "\u202e\u2066") {
			t.Errorf("%s shows a stranger's text as it is", path)
		}
		if strings.Contains(p.text, strings.Repeat("long ", 100)) {
			t.Errorf("%s shows a long text whole", path)
		}
	}
	// A name in an address is a stranger's, too.
	p := v.get("/servers/" + url.PathEscape(`"><script>alert(3)</script>`))
	if strings.Contains(p.text, "<script>alert(3)") {
		t.Error("a name in the address runs")
	}
	p = v.get("/?done=" + url.QueryEscape("call this number"))
	if strings.Contains(p.text, "call this number") {
		t.Error("a link makes the page say something")
	}
}

func TestAnUnknownAddressIsAnsweredByThePageInABrowserAndByTheAPIElsewhere(t *testing.T) {
	p := page.New(page.Options{Now: func() time.Time { return night }, Log: slog.New(slog.DiscardHandler)})
	for _, c := range []struct {
		method, path, accept string
		page                 bool
	}{
		{"GET", "/nonsense", "text/html,*/*", true},
		{"GET", "/servers/a/b/c/d", "text/html", true},
		{"GET", "/nonsense", "*/*", false},
		{"POST", "/nonsense", "text/html", false},
		{"GET", "/v1/nonsense", "text/html", false},
		{"GET", "/v1/servers", "text/html", false},
		{"GET", "/healthz", "text/html", false},
		{"GET", "/servers", "*/*", true},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Header.Set("Accept", c.accept)
		if got := p.Serves(r); got != c.page {
			t.Errorf("%s %s for %s: answered by the page: %v", c.method, c.path, c.accept, got)
		}
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest("GET", "/nonsense", nil))
	if w.Code != 404 || !strings.Contains(w.Body.String(), "There is no such page.") {
		t.Errorf("answered %d: %s", w.Code, w.Body)
	}
}

func TestServersAreListedByTheirState(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	p := v.get("/servers")
	v.says(p, 200, `aria-current="true">In trouble`, "no such host", "Deliveries wait\">1\u202f000+<", `href="/servers/pleroma.example"`, "only an inbox", ">https://pleroma.example/users/someone/inbox</a>")
	if a, b := strings.Index(p.text, "mastodon.down.example"), strings.Index(p.text, "lemmy.example"); a < 0 || a > b {
		t.Error("the longest down is not first")
	}
	v.says(v.get("/servers?phase=blocked"), 200, "*.bad.example", "abuse, ticket 4711")
	v.says(v.get("/servers?phase=all"), 200, "gone.example", `href="/servers?cursor=bmV4dA&amp;phase=all"`)
	v.says(v.get("/servers?phase=exhausted"), 200, "127.0.0.3:44321")
	if p = v.get("/servers?name=" + url.QueryEscape(" limited.example ")); p.Request.URL.Path != "/servers/limited.example" {
		t.Errorf("finding leads to %s", p.Request.URL)
	}
}

// TestEachServerOffersWhatCanBeDoneAboutIt, and nothing that the API would refuse.
func TestEachServerOffersWhatCanBeDoneAboutIt(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	s.api.set("/v1/servers/inbox:https:%2F%2Fpleroma.example%2Fusers%2Fsomeone%2Finbox", client.Server{Name: "inbox:https://pleroma.example/users/someone/inbox", Phase: "recovering"})
	for name, want := range map[string]string{
		"mastodon.down.example": "check resume pause limit block",
		"limited.example":       "resume limit block",
		"*.bad.example":         "unblock",
		"gone.example":          "check resume pause limit block forget",
		"https://peer.example":  "block",
		"inbox:https://pleroma.example/users/someone/inbox": "",
	} {
		p := v.get("/servers/" + url.PathEscape(name))
		v.says(p, 200)
		var got []string
		for _, m := range regexp.MustCompile(`href="/servers/[^"]*/(\w+)"`).FindAllStringSubmatch(p.text, -1) {
			got = append(got, m[1])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s offers %q, want %q", name, got, want)
		}
	}
}

func TestEveryActionIsAskedBackAndThenDone(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	down := "/servers/mastodon.down.example"
	s.api.set("/v1/servers/%2A.mastodon.down.example", client.Server{Name: "*.mastodon.down.example", Phase: "blocked"})
	s.api.set("POST /v1/dead-letters/retry", client.Retried{Retried: 7})
	s.api.set("POST /v1/activities/"+anActivity+"/retry", client.RetriedActivity{Retried: 11})
	s.api.set("DELETE /v1/dead-letters", client.Dropped{Dropped: 3})
	s.api.set("POST /v1/keys", client.Key{ID: aKey})
	for _, c := range []struct {
		ask, says string
		fields    []string
		done, did string
	}{
		{down + "/block", "does not bring them back", []string{"reason", " abuse "}, "The server is blocked.", `POST /v1/servers/mastodon.down.example/block {"reason":"abuse"}`},
		{down + "/block", "(*.mastodon.down.example)", []string{"subdomains", "yes"}, "The server is blocked.", `POST /v1/servers/%2A.mastodon.down.example/block {}`},
		{"/servers/*.bad.example/unblock", "stay failed", nil, "no longer blocked", `POST /v1/servers/%2A.bad.example/unblock`},
		{down + "/pause", "For how long", []string{"for", "PT12H"}, "they wait until", `POST /v1/servers/mastodon.down.example/pause {"for":"PT43200S"}`},
		{down + "/pause", "until I resume it", []string{"for", ""}, "they wait until", `POST /v1/servers/mastodon.down.example/pause {}`},
		{down + "/resume", "released", nil, "released step by step", `POST /v1/servers/mastodon.down.example/resume`},
		{down + "/check", "within a minute", nil, "checked within a minute", `POST /v1/servers/mastodon.down.example/check`},
		{down + "/limit", "a minute", []string{"perMinute", "60", "burst", "5"}, "limit is set", `PUT /v1/servers/mastodon.down.example {"rateLimit":{"perMinute":60,"burst":5}}`},
		{"/servers/limited.example/limit", `value="60"`, []string{"perMinute", "0"}, "limit is removed", `PUT /v1/servers/limited.example {}`},
		{"/activities/" + anActivity + "/cancel", "4\u202f711 have it already", nil, "The activity is cancelled", "POST /v1/activities/" + anActivity + "/cancel"},
		{"/activities/" + anActivity + "/forget", "send a Delete", nil, "The activity is deleted from fedpost", "DELETE /v1/activities/" + anActivity},
		{"/activities/" + anActivity + "/retry", "9 failed and 2 dead recipients", nil, "The recipients are retried", "POST /v1/activities/" + anActivity + "/retry {}"},
		{"/servers/gone.example/forget", "counts as healthy", nil, "record is deleted", `DELETE /v1/servers/gone.example`},
		{"/dead/drop?host=hub.example", "cannot be retried any more", []string{"host", "hub.example"}, "are dropped", `DELETE /v1/dead-letters`},
		{"/dead/drop?id=x.0.1.2", "Drop this dead letter?", []string{"id", "x.0.1.2"}, "are dropped", `DELETE /v1/dead-letters`},
		{"/keys/" + url.PathEscape(aKey) + "/delete", "cannot be undone", nil, "The key is deleted", `DELETE /v1/keys/` + url.PathEscape(aKey)},
		{"/keys/new", "never leaves fedpost", []string{"id", aKey, "type", "ed25519"}, "The key is created", `POST /v1/keys {"id":"` + aKey + `","type":"ed25519"}`},
		{"/webhooks/pager/test", "webhook.test", nil, "what became of it", `POST /v1/webhooks/pager/test`},
		{"/webhooks/pager/change", `value="server.gone" checked`, []string{"url", " https://new.example/hook ", "batch", "yes"}, "is changed", `PUT /v1/webhooks/pager {"url":"https://new.example/hook","batch":true}`},
		{"/webhooks/old/delete", "waiting requests are dropped", nil, "is deleted", `DELETE /v1/webhooks/old`},
		{"/dead/retry?host=hub.example", "all dead letters for hub.example", []string{"host", "hub.example"}, "are retried", `POST /v1/dead-letters/retry {"host":"hub.example"}`},
		{"/dead/retry?host=hub.example", "refused for good", []string{"host", "hub.example", "failed", "yes"}, "are retried", `POST /v1/dead-letters/retry {"host":"hub.example","failed":true}`},
		{"/dead/retry?id=x.0.1.2", "this dead letter", []string{"id", "x.0.1.2"}, "are retried", `POST /v1/dead-letters/retry {"id":"x.0.1.2"}`},
	} {
		v.says(v.get(c.ask), 200, c.says, "Do nothing", `method="post"`)
		if did := s.api.did(); did != nil {
			t.Fatalf("%s is done before it is asked back: %q", c.ask, did)
		}
		path, _, _ := strings.Cut(c.ask, "?")
		v.says(v.post(path, c.fields...), 200, c.done)
		if did := s.api.did(); !slices.Equal(trimmed(did), []string{c.did}) {
			t.Errorf("%s has done %q, want %q", c.ask, did, c.did)
		}
	}
}

func trimmed(all []string) []string {
	for i, s := range all {
		all[i] = strings.TrimSpace(s)
	}
	return all
}

func TestWhatTheAPIRefusesIsSaid(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	v.get("/servers/hub.example/block")
	refusal := problem.New(http.StatusBadRequest, "The request has 1 fault.")
	refusal.Errors = []client.FieldError{{Pointer: "#/reason", Detail: "has 300 bytes; the most is 200"}}
	s.api.set("POST /v1/servers/hub.example/block", refusal)
	v.says(v.post("/servers/hub.example/block", "reason", strings.Repeat("x", 300)), 400, "That did not work", "the most is 200")
	s.api.did()
	v.says(v.post("/servers/hub.example/limit", "perMinute", "a lot"), 400, "whole numbers")
	v.says(v.post("/servers/hub.example/pause", "for", "P900Y"), 400, "lengths of a pause")
	v.says(v.post("/servers/hub.example/explode"), 404, "no such action")
	v.says(v.get("/servers/hub.example/explode"), 404, "no such action")
	v.says(v.post("/dead/retry"), 404, "no such action")
	v.says(v.get("/dead/retry"), 404, "no such action")
	v.says(v.post("/servers/hub.example/block", "reason", strings.Repeat("x", 100<<10)), 403, "reload the page")
	if did := s.api.did(); did != nil {
		t.Errorf("changed: %q", did)
	}
}

func TestKeysAreListedAndFound(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	v.says(v.get("/keys"), 200, "https://social.example/users/frida#main-key", "BEGIN PUBLIC KEY", `href="/keys?cursor=bmV4dA"`, `href="/keys/https:%2F%2Fsocial.example%2Fusers%2Ffrida%23main-key/delete"`)
	v.says(v.get("/keys?id=+"+url.QueryEscape(aKey)), 200, "BEGIN PUBLIC KEY")
	v.says(v.get("/keys?id=another"), 404, "no such thing")
	v.get("/keys/" + url.PathEscape(aKey) + "/delete")
	at := "DELETE /v1/keys/" + url.PathEscape(aKey)
	s.api.set(at, problem.New(http.StatusConflict, "7 deliveries need it."))
	v.says(v.post("/keys/"+url.PathEscape(aKey)+"/delete"), 409, "7 deliveries need it.")
	s.api.set(at+"?force=true", client.DeletedKey{ID: aKey, Waiting: 7})
	v.says(v.post("/keys/"+url.PathEscape(aKey)+"/delete", "force", "yes"), 200, "The key is deleted")
}

func TestTheSecretOfAWebhookIsShownOnce(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	v.says(v.get("/webhooks"), 200, "pager.example", "answered 500: &lt;script&gt;", "disabled", "3 h ago", "in batches")
	v.says(v.get("/webhooks/new"), 200, "letters, digits", "recipient.gone")
	s.api.set("PUT /v1/webhooks/fresh", client.Webhook{ID: "fresh", URL: "https://a.example/in", Secret: "whsec_once"})
	form := url.Values{"form": {v.form}, "id": {"fresh"}, "url": {"https://a.example/in"}, "types": {"server.gone", "recipient.gone"}}
	v.says(v.ask(v.posting("/webhooks/new", form)), 200, "whsec_once", "only now")
	if did := trimmed(s.api.did()); !slices.Equal(did, []string{`PUT /v1/webhooks/fresh {"url":"https://a.example/in","types":["server.gone","recipient.gone"]}`}) {
		t.Errorf("done: %q", did)
	}
	s.api.set("PUT /v1/webhooks/app", client.Webhook{ID: "app", Secret: "whsec_anew"})
	v.says(v.post("/webhooks/app/change", "url", "https://a.example/in", "rotate", "yes"), 200, "whsec_anew")
	s.api.did()
	// Adding one changes no other.
	v.says(v.post("/webhooks/new", "id", "app", "url", "https://a.example/in"), 409, "choose another name")
	v.says(v.post("/webhooks/new", "url", "https://a.example/in"), 400, "Give the webhook a name")
	v.says(v.get("/webhooks/app/explode"), 404, "no such action")
	v.says(v.post("/webhooks/app/explode"), 404, "no such action")
	if did := s.api.did(); did != nil {
		t.Errorf("changed: %q", did)
	}
}

func TestARetryThatIsNotOverSaysSo(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	for words, d := range map[string]client.Dropped{"There are more": {Dropped: 1000, More: true}, "nothing was done": {}} {
		s.api.set("DELETE /v1/dead-letters", d)
		v.says(v.post("/dead/drop", "host", "hub.example"), 200, words)
	}
	for words, r := range map[string]client.Retried{"There are more": {Retried: 1000, More: true}, "nothing was done": {}} {
		s.api.set("POST /v1/dead-letters/retry", r)
		v.says(v.post("/dead/retry", "host", "hub.example"), 200, words)
	}
}

// TestWhatWasRefusedIsTriedAgainFromThePageOfDeadLetters: the page of a server offers it,
// also where nothing is dead, and the list says how to do it for many.
func TestWhatWasRefusedIsTriedAgainFromThePageOfDeadLetters(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	v.says(v.get("/dead"), 200, "fedpost dead retry --failed", `<form class="find" method="get" action="/dead"`, `name="host"`)
	for _, limit := range []string{"20", "50"} {
		s.api.set("/v1/dead-letters?host=refusing.example&limit="+limit, client.DeadLetters{DeadLetters: []client.DeadLetter{}})
	}
	s.api.set("/v1/servers/refusing.example", client.Server{Name: "refusing.example", Phase: client.PhaseHealthy})
	s.api.set("/v1/servers/refusing.example/waiting", client.Waiting{})
	v.says(v.get("/servers/refusing.example"), 200, `<a href="/dead?host=refusing.example">Retry refused deliveries`)
	const offer = "/dead/retry?host=refusing.example&amp;failed=yes"
	v.says(v.get("/dead?host=refusing.example"), 200, "None for this server", offer)
	v.says(v.get(html.UnescapeString(offer)), 200, `name="failed" value="yes" checked`)
	if p := v.get("/dead/retry?id=x.0.1.2&failed=yes"); strings.Contains(p.text, `name="failed"`) {
		t.Error("one dead letter is asked about refusals")
	}
	// The API goes through the events and comes back with a cursor.
	s.api.set("POST /v1/dead-letters/retry", client.Retried{More: true, NextCursor: "event.x"})
	v.says(v.post("/dead/retry", "host", "refusing.example", "failed", "yes"), 200, "not all were searched")
	did := s.api.did()
	if n := len(did); n != 20 || !strings.Contains(did[0], `{"host":"refusing.example","failed":true}`) || !strings.Contains(did[1], `"cursor":"event.x"`) {
		t.Errorf("%d requests, the first %.200q", n, did)
	}
}

// TestTheNumberOfDeadLettersThatAreReadIsBounded: each is read with its activity.
func TestTheNumberOfDeadLettersThatAreReadIsBounded(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	many := letters(200)
	many.NextCursor = "bmV4dA"
	s.api.set("/v1/dead-letters", many)
	s.api.asked = nil
	v.says(v.get("/dead"), 200, "These are the newest 1\u202f000; there are more.", "hub.example")
	if n := len(s.api.asked); n != 5 {
		t.Errorf("asked %d times: %q", n, s.api.asked)
	}
}

func TestAssetsMayBeKeptForEver(t *testing.T) {
	s := serve(t, well(t), true)
	v := s.visitor()
	p := v.get("/sign-in")
	for _, m := range regexp.MustCompile(`(?:href|src)="(/assets/[^"]+)"`).FindAllStringSubmatch(p.text, -1) {
		a := v.get(strings.ReplaceAll(m[1], "&amp;", "&"))
		if a.StatusCode != 200 || !strings.Contains(a.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", m[1], a.StatusCode, a.Header)
		}
	}
	for _, path := range []string{"/assets/nothing.css", "/assets/..%2Fpage.go", "/assets/"} {
		if a := v.get(path); a.StatusCode != 404 {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
}

func TestNumbersAndTimesAreReadable(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	for since, want := range map[time.Duration]string{
		20 * time.Second: "20 s ago", 7 * time.Minute: "7 min ago", 3*time.Hour + 5*time.Minute: "3 h 5 min ago", 26 * time.Hour: "1 d 2 h ago", 48 * time.Hour: "2 d ago", 0: "just now",
	} {
		s.api.set("/v1/servers/a.example/waiting", client.Waiting{})
		s.api.set("/v1/servers/a.example", client.Server{Name: "a.example", Phase: "unhealthy", DownSince: night.Add(-since)})
		v.says(v.get("/servers/a.example"), 200, fmt.Sprintf(">%s</time>", want))
	}
}
