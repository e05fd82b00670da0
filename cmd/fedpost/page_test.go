package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"fedpost/internal/app/local"
)

// operator's browser, without script.
type browser struct {
	terminal
	http *http.Client
}

func (t terminal) browser() browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return browser{t, &http.Client{Jar: jar}}
}

// see reads a page and checks its text.
func (b browser) see(path string, says ...string) string {
	b.Helper()
	resp, err := b.http.Get(b.url + path)
	if err != nil {
		b.Fatal(err)
	}
	return b.shows(resp, says...)
}

func (b browser) shows(resp *http.Response, says ...string) string {
	b.Helper()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	_, body, _ := strings.Cut(string(text), "<main")
	for _, s := range says {
		if !strings.Contains(body, s) {
			b.Errorf("%s does not show %q: %d %s", resp.Request.URL, s, resp.StatusCode, regexp.MustCompile(`<[^>]*>\s*`).ReplaceAllString(body, " "))
		}
	}
	return string(text)
}

// act answers the question before an action with yes.
func (b browser) act(path string, fields url.Values, says string) {
	b.Helper()
	text := b.see(path, "Do nothing")
	for _, m := range regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)"`).FindAllStringSubmatch(text[strings.Index(text, "<main"):], -1) {
		if fields == nil {
			fields = url.Values{}
		}
		fields.Set(m[1], m[2])
	}
	at := regexp.MustCompile(`<form class="ask" method="post" action="([^"]+)"`).FindStringSubmatch(text)
	if at == nil {
		b.Fatalf("%s has no form", path)
	}
	resp, err := b.http.PostForm(b.url+at[1], fields)
	if err != nil {
		b.Fatal(err)
	}
	b.shows(resp, says)
}

func (b browser) signIn(token string) string {
	b.Helper()
	resp, err := b.http.PostForm(b.url+"/sign-in", url.Values{"secret": {token}})
	if err != nil {
		b.Fatal(err)
	}
	return b.shows(resp)
}

// TestAnOperatorSeesAndActsOnThePage of a real fedpost, with each action of the page.
func TestAnOperatorSeesAndActsOnThePage(tt *testing.T) {
	tt.Parallel()
	t := onServer(tt)
	t.mixed()
	b := t.browser()
	b.see("/", "API token")
	if text := b.signIn("a token that is not right"); !strings.Contains(text, "is wrong") {
		t.Errorf("let in: %s", text)
	}
	b.signIn(token)
	b.see("/", "3 deliveries are dead", "<dd>3</dd>", "Delivered: <strong>3</strong>")
	list := b.see("/dead", "3 × answered 500", "500")
	host := regexp.MustCompile(`/dead\?host=([^"]+)"`).FindStringSubmatch(list)
	if host == nil {
		t.Fatalf("no host: %s", list)
	}
	letters := b.see("/dead?host="+host[1], "Create", "/broken")
	id := regexp.MustCompile(`/activities/(\w{26})`).FindStringSubmatch(letters)
	if id == nil {
		t.Fatalf("no activity: %s", letters)
	}
	b.see("/activities/"+id[1], "1 delivered", "2 failed", "1 dead", "/gone", "404", "bad.example")
	b.see("/events", "recipient.gone", "recipient.dead", "/gone")
	dead := regexp.MustCompile(`/dead/drop\?id=([^"]+)"`).FindStringSubmatch(letters)
	if dead == nil {
		t.Fatalf("no dead letter can be dropped: %s", letters)
	}
	b.act("/dead/drop?id="+dead[1], nil, "are dropped")
	b.act("/activities/"+id[1]+"/retry", nil, "are retried")
	b.act("/dead/retry?host="+host[1], nil, "are retried")

	b.see("/servers?phase=blocked", "bad.example")
	b.act("/servers/bad.example/unblock", nil, "no longer blocked")
	b.act("/servers/sub.bad.example/block", url.Values{"subdomains": {"yes"}, "reason": {"abuse <b>4711</b>"}}, "The server is blocked.")
	t.run([]string{"servers", "show", "*.sub.bad.example"}, "blocked", "abuse <b>4711</b>")
	b.see("/servers/deep.sub.bad.example")
	b.act("/servers/a.example/pause", url.Values{"for": {"PT30M"}}, "they wait until")
	t.run([]string{"servers", "show", "a.example"}, "paused", "until")
	b.act("/servers/a.example/limit", url.Values{"perMinute": {"60"}}, "limit is set")
	t.run([]string{"servers", "show", "a.example"}, "60/min")
	b.act("/servers/a.example/limit", nil, "limit is removed")
	b.act("/servers/a.example/resume", nil, "released step by step")
	b.act("/servers/a.example/check", nil, "within a minute")
	t.run([]string{"servers", "show", "a.example"}, "healthy")

	out := t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", "https://a.example/1", "--delay", "2d"})
	later, _, _ := strings.Cut(out, " ")
	b.act("/activities/"+later+"/cancel", nil, "The activity is cancelled")
	t.run([]string{"status", later}, "cancelled")
	b.act("/activities/"+id[1]+"/forget", nil, "The activity is deleted from fedpost")
	t.fails("404", "status", id[1])
	b.see("/activities?id=nonsense", "None.")
	b.see("/activities/nonsense", "an id has 26 letters")
	b.see("/activities?actor="+url.QueryEscape("https://social.example/users/frida"), "/activities/"+later)
	b.see("/servers?name=a+b", "not usable")

	b.act("/keys/new", url.Values{"id": {"https://social.example/users/kim#main-key"}, "type": {"ed25519"}}, "The key is created")
	b.see("/keys", "users/frida#main-key", "users/kim#main-key", "BEGIN PUBLIC KEY")
	b.act("/keys/"+url.PathEscape("https://social.example/users/kim#main-key")+"/delete", nil, "The key is deleted")
	t.fails("404", "keys", "show", "https://social.example/users/kim#main-key")

	b.act("/webhooks/new", url.Values{"id": {"app"}, "url": {"http://127.0.0.1:9/hook"}, "types": {"server.gone"}}, "whsec_")
	t.run([]string{"webhooks", "list"}, "app", "http://127.0.0.1:9/hook")
	b.act("/webhooks/app/test", nil, "what became of it")
	b.act("/webhooks/app/change", url.Values{"url": {"http://127.0.0.1:9/other"}}, "is changed")
	b.see("/webhooks", "http://127.0.0.1:9/other")
	b.act("/webhooks/app/delete", nil, "is deleted")
	t.run([]string{"webhooks", "list"}, "none")
}

// TestThePageLeavesTheAPIItsRoutes: requests that are not for pages are answered as before.
func TestThePageLeavesTheAPIItsRoutes(tt *testing.T) {
	tt.Parallel()
	t := onServer(tt)
	for path, want := range map[string]int{"/healthz": 200, "/v1/servers": 401, "/nothing": 404, "//v1/servers": 404, "/servers/a/b/c": 404, "/discover": 404} {
		if status, body := t.get(path, ""); status != want && !(want == 404 && status == 401) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := t.get("/", ""); status != http.StatusOK || !strings.Contains(body, "Sign in") {
		t.Errorf("the page is %d %s", status, body)
	}
}

// TestWithoutATokenThePageIsForThisMachineOnly: a name that a web page lets resolve to
// 127.0.0.1 reaches neither page nor metrics.
func TestWithoutATokenThePageIsForThisMachineOnly(tt *testing.T) {
	tt.Setenv("FEDPOST_API_TOKEN", "")
	f, err := start(tt.Context(), tt.TempDir(), local.ListenConfig{Listen: "127.0.0.1:0"}, true, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		tt.Fatal(err)
	}
	tt.Cleanup(func() {
		if err := f.stop(nil, 10*time.Second); err != nil {
			tt.Error(err)
		}
	})
	t := terminal{tt, f.server.URL}
	t.browser().see("/", "No queue is stuck")
	if status, body := t.get("/metrics", ""); status != 200 || !strings.Contains(body, "fedpost_stats_up 1") {
		t.Errorf("metrics: %d %s", status, body)
	}
	for _, path := range []string{"/", "/servers", "/metrics", "/assets/page.css"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, t.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "rebound.example"
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("%s under another name: %d", path, resp.StatusCode)
		}
	}
}

// TestADashboardServesThePageOfAnotherFedpost to whoever has its link.
func TestADashboardServesThePageOfAnotherFedpost(tt *testing.T) {
	tt.Parallel()
	t := onServer(tt)
	t.run([]string{"servers", "block", "bad.example"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- dashboard{reach: reach{URL: t.url, Token: token}, Listen: "127.0.0.1:0"}.Run(ctx, out, slog.New(slog.DiscardHandler))
	}()
	printed := make([]byte, 1000)
	n, err := r.Read(printed)
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`http://127\.0\.0\.1:\d+(/sign-in\?secret=\w+)`).FindSubmatch(printed[:n])
	if link == nil {
		t.Fatalf("printed %s", printed[:n])
	}
	at := terminal{tt, string(bytes.TrimSuffix(link[0], link[1]))}
	b := at.browser()
	b.see("/servers", "secret of the link")
	b.see(string(link[1]), "No queue is stuck")
	b.see("/servers?phase=blocked", "bad.example")
	b.act("/servers/bad.example/unblock", nil, "no longer blocked")
	t.run([]string{"servers", "show", "bad.example"}, "healthy")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	t.fails("only loopback addresses", "dashboard", "--listen", "0.0.0.0:8081")
}

// TestThePageOffersNothingToThoseWhoMayOnlyRead: what the API would refuse is hidden from them, and
// shown to others.
func TestThePageOffersNothingToThoseWhoMayOnlyRead(tt *testing.T) {
	tt.Setenv("FEDPOST_READ_TOKEN", "a token that only reads")
	t := onServer(tt)
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	const says = "This token is read-only"
	offer := map[string]string{"/keys": "/keys/new", "/servers/a.example": "/block", "/webhooks": "/webhooks/new"}
	reader, operator := t.browser(), t.browser()
	reader.signIn("a token that only reads")
	operator.signIn(token)
	for _, path := range []string{"/", "/keys", "/servers/a.example", "/webhooks", "/dead"} {
		if text := reader.see(path); offer[path] != "" && strings.Contains(text, offer[path]) || !strings.Contains(text, says) {
			t.Errorf("%s offers actions to a reader", path)
		}
		if text := operator.see(path); !strings.Contains(text, offer[path]) || strings.Contains(text, says) {
			t.Errorf("%s hides actions from an operator", path)
		}
	}
	// The questions have changed nothing.
	t.run([]string{"servers", "list"}, "none")
}
