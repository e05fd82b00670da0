package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gopkg.in/yaml.v3"

	"fedpost/client"
)

// carrier answers requests.
type carrier func(*http.Request) (status int, retryAfter, body string)

func (f carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	status, retryAfter, body := f(r)
	if status == 0 {
		return nil, errors.New(body)
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Retry-After": {retryAfter}, "Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

func to(t *testing.T, f carrier, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New("http://fedpost.test/", append([]client.Option{client.HTTPClient(&http.Client{Transport: f})}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEveryOperationOfTheAPIHasItsMethod makes each call once and compares what was asked for
// with what docs/openapi.yaml describes.
func TestEveryOperationOfTheAPIHasItsMethod(t *testing.T) {
	var asked []string
	c := to(t, func(r *http.Request) (int, string, string) {
		asked = append(asked, r.Method+" "+r.URL.EscapedPath())
		return 200, "", `{"id":"ID","status":"queued","at":"2026-11-24T12:00:00Z","next":"AQ"}`
	})
	ctx := t.Context()
	lists := func(yield func(error) bool) {
		for _, err := range c.Activities(ctx, client.ActivityQuery{}) {
			yield(err)
		}
		for _, err := range c.Keys(ctx, 0) {
			yield(err)
		}
		for _, err := range c.DeadLetters(ctx, client.Selection{}) {
			yield(err)
		}
		for _, err := range c.Servers(ctx, client.ServerQuery{}) {
			yield(err)
		}
		for _, err := range c.Follows(ctx, 0) {
			yield(err)
		}
		for _, err := range c.Outbox(ctx, "", 0) {
			yield(err)
		}
	}
	for err := range lists {
		if !errors.Is(err, client.ErrNotFedpost) { // the answer has no list
			t.Error(err)
		}
	}
	for i, err := range []error{
		second(c.Send(ctx, client.Submission{})), second(c.SendMany(ctx, client.Batch{})), second(c.Check(ctx, client.Submission{})), second(c.Activity(ctx, "ID")), c.Forget(ctx, "ID"), second(c.Cancel(ctx, "ID")), second(c.CancelMany(ctx, client.ActivitySelection{})), second(c.Retry(ctx, "ID", client.Retry{})),
		second(c.GenerateKey(ctx, "ID", "")), second(c.Key(ctx, "ID")), second(c.PutKey(ctx, "ID", "")), second(c.DeleteKey(ctx, "ID", true)),
		second(c.EventPage(ctx, client.EventQuery{})), second(c.Webhooks(ctx)), second(c.Webhook(ctx, "ID")), second(c.PutWebhook(ctx, "ID", client.WebhookSettings{})), c.DeleteWebhook(ctx, "ID"), second(c.TestWebhook(ctx, "ID")),
		second(c.RetryDeadLetters(ctx, client.Selection{})), second(c.DropDeadLetters(ctx, client.Selection{})),
		second(c.RetryOutbox(ctx, client.OutboxSelection{})), second(c.DropOutbox(ctx, client.OutboxSelection{})),
		second(c.Server(ctx, "ID")), second(c.LimitServer(ctx, "ID", nil)), second(c.PinServer(ctx, "ID", client.SipherKeys{})), c.ForgetServer(ctx, "ID"), second(c.Waiting(ctx, "ID", "")),
		second(c.BlockServer(ctx, "ID", client.Block{})), second(c.UnblockServer(ctx, "ID")), second(c.PauseServer(ctx, "ID", client.Pause{})), second(c.ResumeServer(ctx, "ID")), second(c.CheckServer(ctx, "ID")),
		second(c.Stats(ctx, client.StatsQuery{})), second(c.History(ctx, "")), second(c.Discovery(ctx)), second(c.Register(ctx, "ID", client.SipherKeys{})), second(c.Health(ctx)),
	} {
		if err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	text, err := os.ReadFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	var described []string
	for path, item := range d.Paths {
		for method := range item {
			if method != "parameters" {
				described = append(described, strings.ToUpper(method)+" "+regexp.MustCompile(`{\w+}`).ReplaceAllString(path, "ID"))
			}
		}
	}
	slices.Sort(described)
	slices.Sort(asked)
	asked = slices.Compact(asked)
	for _, operation := range described {
		if !slices.Contains(asked, operation) {
			t.Errorf("no method makes the call %s", operation)
		}
	}
	for _, call := range asked {
		if !slices.Contains(described, call) {
			t.Errorf("a method makes the call %s, which the API does not have", call)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestACallIsRepeatedWhereThatIsHarmless: with growing pauses, for as long as the client has
// patience, and never if a repetition could do something twice.
func TestACallIsRepeatedWhereThatIsHarmless(t *testing.T) {
	type call = func(context.Context, *client.Client) error
	send := func(ctx context.Context, c *client.Client) error { return second(c.Send(ctx, client.Submission{})) }
	read := func(ctx context.Context, c *client.Client) error { return second(c.Activity(ctx, "x")) }
	generate := func(ctx context.Context, c *client.Client) error { return second(c.GenerateKey(ctx, "x", "")) }
	forget := func(ctx context.Context, c *client.Client) error { return c.Forget(ctx, "x") }
	for name, c := range map[string]struct {
		call       call
		status     int // of the first answers; 0: none
		retryAfter string
		first      int // how many answers are of that kind
		asked      int
		took       time.Duration // at least
		fails      bool
	}{
		"no answer to a read":                {read, 0, "", 3, 4, 700 * time.Millisecond, false},
		"503 to a send":                      {send, 503, "", 2, 3, 300 * time.Millisecond, false},
		"503 to a send, and when to come":    {send, 503, "5", 2, 3, 10 * time.Second, false},
		"a send whose outcome is unknown":    {send, 0, "", 1, 2, 0, false},
		"500 to a send":                      {send, 500, "", 1, 2, 0, false},
		"a send that another makes":          {send, 409, "2", 1, 2, 2 * time.Second, false},
		"a key that was used otherwise":      {send, 422, "", 1, 1, 0, true},
		"a request with faults":              {send, 400, "", 1, 1, 0, true},
		"429 to what must not be repeated":   {generate, 429, "7", 1, 2, 7 * time.Second, false},
		"503 to what must not be repeated":   {generate, 503, "1", 1, 1, 0, true},
		"no answer to what is not harmless":  {forget, 0, "", 1, 1, 0, true},
		"a pause that is beyond patience":    {read, 503, "31", 1, 1, 0, true},
		"a server that does not come back":   {read, 503, "10", 99, 4, 30 * time.Second, true},
		"a conflict that does not end":       {read, 409, "", 1, 1, 0, true},
		"a pause of a year":                  {read, 503, "31536000", 1, 1, 0, true},
		"a pause of 30 digits":               {read, 503, strings.Repeat("9", 30), 1, 1, 0, true},
		"a pause that was":                   {read, 503, "-31536000", 1, 2, 0, false},
		"a date far away":                    {read, 503, "Fri, 31 Dec 9999 23:59:59 GMT", 1, 1, 0, true},
		"a token that does not open a route": {read, 403, "", 1, 1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, asked := time.Now(), 0
				keys := map[string]bool{}
				api := to(t, func(r *http.Request) (int, string, string) {
					asked++
					keys[r.Header.Get("Idempotency-Key")] = true
					if asked <= c.first {
						return c.status, c.retryAfter, `{"title":"Not now"}`
					}
					return 200, "", `{"id":"ID"}`
				})
				err := c.call(t.Context(), api)
				if took := time.Since(begin); (err != nil) != c.fails || asked != c.asked || took < c.took || len(keys) != 1 {
					t.Errorf("asked %d times in %v with the keys %v, then %v; expected %d times in %v or more, an error: %t", asked, took, keys, err, c.asked, c.took, c.fails)
				}
			})
		})
	}
}

// TestASendHasAKeyOfItsOwn: the same for all requests of one call, another for each call, and
// none where the caller gives one or does not want repetitions.
func TestASendHasAKeyOfItsOwn(t *testing.T) {
	var keys []string
	f := carrier(func(r *http.Request) (int, string, string) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		return 202, "", `{"id":"X","status":"queued","recipients":1}`
	})
	for _, c := range []struct {
		patience time.Duration
		key      string
	}{{time.Second, ""}, {time.Second, ""}, {time.Second, "mine"}, {0, ""}} {
		if _, err := to(t, f, client.Patience(c.patience)).Send(t.Context(), client.Submission{DeduplicationKey: c.key}); err != nil {
			t.Error(err)
		}
	}
	quoted := regexp.MustCompile(`^"[A-Z2-7]{26}"$`)
	if !quoted.MatchString(keys[0]) || !quoted.MatchString(keys[1]) || keys[0] == keys[1] || keys[2] != "" || keys[3] != "" {
		t.Errorf("keys %q", keys)
	}
}

func TestAnActivityIsSentByteForByte(t *testing.T) {
	const activity = "{ \"type\" : \"Create\",\n\t\"content\":\"<p>\\u003c & 🦉 \u2028</p>\" }"
	var body string
	c := to(t, func(r *http.Request) (int, string, string) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body = string(b)
		return 202, "", `{"id":"ID","status":"queued"}`
	})
	s := client.Submission{Activity: []byte(activity), Recipients: client.To("https://a.example/inbox")}
	one := `{"activity":` + activity + `,"recipients":["https://a.example/inbox"]}`
	if _, err := c.Send(t.Context(), s); err != nil || body != one+"\n" {
		t.Errorf("%v, sent\n%s\nnot\n%s", err, body, one)
	}
	want := `{"activities":[` + one + `,` + one + `],"deduplicationKey":"k"}` + "\n"
	if _, err := c.SendMany(t.Context(), client.Batch{Activities: []client.Submission{s, s}, DeduplicationKey: "k"}); err != nil || body != want {
		t.Errorf("%v, sent\n%s\nnot\n%s", err, body, want)
	}
}

func TestARefusalIsAProblemWithItsFields(t *testing.T) {
	c := to(t, func(*http.Request) (int, string, string) {
		return 400, "7", `{"type":"urn:fedpost:problem:invalid-request","title":"Invalid request","status":400,"detail":"The first: /type is odd.","errors":[{"pointer":"#/type","detail":"is odd"},{"pointer":"#/id","detail":"is missing"}]}`
	})
	_, err := c.Activity(t.Context(), "x")
	var p *client.Problem
	if !errors.As(err, &p) {
		t.Fatalf("error %v is no *Problem", err)
	}
	// The API's detail begins with the first fault, which is not said twice.
	if want := "400 Invalid request: The first: /type is odd.; #/id: is missing"; p.RetryAfter != 7*time.Second || p.Error() != want {
		t.Errorf("problem %+v: %v, want %s", p, p, want)
	}
}

// TestWhatIsWrongIsSaidInOneSentence, about an address, a server, a certificate and a proxy.
func TestWhatIsWrongIsSaidInOneSentence(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:8080", "ftp://a.example", "http://", "http://a.example/?x=1", "http://a b"} {
		if _, err := client.New(address); !errors.Is(err, client.ErrAddress) || !strings.Contains(err.Error(), fmt.Sprintf("%q", address)) {
			t.Errorf("%q: %v", address, err)
		}
	}
	page := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/activities/refused" {
			http.Error(w, "upstream is down", http.StatusBadRequest)
			return
		}
		if r.URL.Path == "/v1/activities/elsewhere" {
			w.WriteHeader(http.StatusNotFound)
		}
		if r.URL.Path == "/v1/activities/other" {
			_, _ = io.WriteString(w, `{"hello":"world"}`)
			return
		}
		_, _ = io.WriteString(w, "<!doctype html><p>Welcome")
	}))
	page.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshake that fails
	page.StartTLS()
	defer page.Close()
	trusting := client.HTTPClient(page.Client())
	for name, c := range map[string]struct {
		options []client.Option
		id      string
		is      error
		says    string
	}{
		"a website":           {[]client.Option{trusting}, "x", client.ErrNotFedpost, "200 text/html that is not the JSON that was expected: is the address right"},
		"an error page":       {[]client.Option{trusting}, "elsewhere", nil, "fedpost answered 404 Not Found: text/html, which is not from fedpost: is the address right?"},
		"another API":         {[]client.Option{trusting}, "other", client.ErrNotFedpost, "is the address right, and this client as new as fedpost? it lacks what"},
		"a proxy":             {[]client.Option{trusting}, "refused", nil, "fedpost answered 400 Bad Request: upstream is down"},
		"another certificate": {[]client.Option{client.HTTPClient(&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{}}})}, "x", client.ErrNoAnswer, "certificate signed by unknown authority"},
	} {
		api, err := client.New(page.URL, c.options...)
		if err != nil {
			t.Fatal(err)
		}
		_, err = api.Activity(t.Context(), c.id)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAListFollowsItsPagesUpToALimit(t *testing.T) {
	var asked []string
	c := to(t, func(r *http.Request) (int, string, string) {
		asked = append(asked, r.URL.RawQuery)
		return 200, "", map[string]string{
			"":  `{"servers":[{"server":"1"},{"server":"2"}],"nextCursor":"b"}`,
			"b": `{"servers":[],"nextCursor":"c"}`,
			"c": `{"servers":[{"server":"3"},{"server":"4"}]}`,
		}[r.URL.Query().Get("cursor")]
	})
	for limit, want := range map[int][]string{
		0: {"phase=gone", "cursor=b&phase=gone", "cursor=c&phase=gone"},
		2: {"limit=2&phase=gone"},
		3: {"limit=3&phase=gone", "cursor=b&limit=1&phase=gone", "cursor=c&limit=1&phase=gone"},
	} {
		asked = nil
		n := 0
		for s, err := range c.Servers(t.Context(), client.ServerQuery{Phase: client.PhaseGone, Limit: limit}) {
			if n++; err != nil || s.Name != fmt.Sprint(n) {
				t.Errorf("limit %d: entry %d is %+v, %v", limit, n, s, err)
			}
		}
		if wantN := limit; limit != 0 && n != wantN || limit == 0 && n != 4 || !slices.Equal(asked, want) {
			t.Errorf("limit %d: %d entries, asked %q, want %q", limit, n, asked, want)
		}
	}
}

func TestWaitingEndsWhenEverybodyHasComeToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []string{
			`"queued","counts":{}`, `"delivering","counts":{"retrying":1,"delivered":2}`, `"delivering","counts":{"parked":1,"delivered":2}`,
			`"cancelled","counts":{"queued":1,"delivered":2}`, `"delivering","counts":{"held":1,"delivered":2}`, // held is of a newer version
			`"done","counts":{"delivered":2,"dead":1,"forwarded":1}`,
		}
		c := to(t, func(r *http.Request) (int, string, string) {
			answer := answers[0]
			answers = answers[1:]
			return 200, "", `{"id":"X","status":` + answer + `}`
		})
		s, err := c.WaitUntilDone(t.Context(), "X")
		if err != nil || !s.Done() || s.Missed() != 1 || len(answers) != 0 {
			t.Errorf("%+v, %v; %d answers left", s, err, len(answers))
		}
	})
}
