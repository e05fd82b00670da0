package apigateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"reflect"
	"testing"

	"github.com/aws/aws-lambda-go/events"
)

// echo answers with a description of the request that it got.
type echo struct {
	Method, Path, Escaped, Cursor, Idempotency, Host, Body string
}

func serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Add("Retry-After", "7")
	w.WriteHeader(http.StatusAccepted)
	// An answer that is cut off fails the test.
	_ = json.NewEncoder(w).Encode(echo{
		r.Method, r.URL.Path, r.URL.EscapedPath(), r.URL.Query().Get("cursor"), r.Header.Get("Idempotency-Key"), r.Host, string(body),
	})
}

// served is an API of one handler.
type served struct {
	http.HandlerFunc
	patterns []string
}

func (s served) Patterns() []string { return s.patterns }

// echoing echoes requests. Its routes are some of fedpost's.
var echoing = served{serve, []string{
	"GET /healthz", "POST /v1/activities", "GET /v1/keys/{id}", "GET /v1/servers/{host}",
	"POST /v1/servers/{host}/block", "POST /v1/servers/{host}/unblock", "POST /v1/servers/{host}/pause",
}}

// answer runs one event and reads the answer, which has the same fields in both
// formats.
func answer(t *testing.T, event map[string]any) echo {
	t.Helper()
	raw, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	out, err := New(echoing)(context.Background(), raw)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	var r events.APIGatewayV2HTTPResponse
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	var e echo
	if err := json.Unmarshal([]byte(r.Body), &e); err != nil || r.StatusCode != http.StatusAccepted {
		t.Fatalf("%s: %v", b, err)
	}
	if r.Headers["Retry-After"] != "7" && !reflect.DeepEqual(r.MultiValueHeaders["Retry-After"], []string{"7"}) {
		t.Errorf("header lost: %s", b)
	}
	return e
}

func fixture(t *testing.T, name string, change map[string]any) map[string]any {
	t.Helper()
	b, err := os.ReadFile("../../../../functions/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var event map[string]any
	if err := json.Unmarshal(b, &event); err != nil {
		t.Fatal(err)
	}
	for k, v := range change {
		event[k] = v
	}
	return event
}

func TestBothFormatsGiveTheSameRequest(t *testing.T) {
	want := echo{
		Method: "GET", Path: "/v1/keys/https://social.example/users/frida#main-key",
		Escaped: "/v1/keys/https%3A%2F%2Fsocial.example%2Fusers%2Ffrida%23main-key",
		Cursor:  "a b&c", Idempotency: `"note, 8842"`,
	}
	for _, name := range []string{"rest-api.json", "http-api.json"} {
		t.Run(name, func(t *testing.T) {
			got := answer(t, fixture(t, name, nil))
			want.Host = got.Host // each API has its own
			got.Escaped = unifyColon(got.Escaped)
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if got.Host == "" {
				t.Error("no host")
			}
		})
	}
}

// unifyColon decodes encoded colons: a path may hold a colon either way.
func unifyColon(s string) string {
	if len(s) > 14 && s[14] == ':' {
		return s[:14] + "%3A" + s[15:]
	}
	return s
}

func TestABodyInBase64IsDecoded(t *testing.T) {
	const body = `{"content":"<p>größe & 🐘</p>"}`
	coded := base64.StdEncoding.EncodeToString([]byte(body))
	for _, name := range []string{"rest-api.json", "http-api.json"} {
		for _, change := range []map[string]any{
			{"body": body},
			{"body": coded, "isBase64Encoded": true},
		} {
			if got := answer(t, fixture(t, name, change)).Body; got != body {
				t.Errorf("%s: got %q", name, got)
			}
		}
	}
}

func TestTheStageIsNoPartOfThePath(t *testing.T) {
	for raw, want := range map[string]string{
		"/live/healthz": "/healthz",
		"/live":         "/",
		"/liveliness":   "/liveliness",
		"/healthz":      "/healthz",
	} {
		event := fixture(t, "http-api.json", map[string]any{"rawPath": raw})
		event["requestContext"].(map[string]any)["stage"] = "live"
		if got := answer(t, event).Path; got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

// A custom domain may serve the API under a base path.
func TestTheBasePathIsNoPartOfThePath(t *testing.T) {
	const greedy = "/v1/{proxy+}"
	for _, tt := range []struct{ resource, proxy, path, want string }{
		{"/healthz", "", "/fedpost/healthz", "/healthz"},
		{"/healthz", "", "/healthz", "/healthz"},
		{"/discover", "", "/a/b/discover", "/discover"},
		{greedy, "activities", "/v1/activities", "/v1/activities"},
		{greedy, "activities", "/fedpost/v1/activities", "/v1/activities"},
		{greedy, "activities/batch", "/a/b/v1/activities/batch", "/v1/activities/batch"},
		{greedy, "activities", "/v1/v1/activities", "/v1/activities"},       // the base path is v1
		{greedy, "v1/activities", "/v1/v1/activities", "/v1/v1/activities"}, // no base path, and no such route
		{greedy, "keys/https%3A%2F%2Fa.example%2Fv1%2Fu%23k", "/fedpost/v1/keys/https%3A%2F%2Fa.example%2Fv1%2Fu%23k", "/v1/keys/https://a.example/v1/u#k"},
		{greedy, "keys/https://a.example/v1/u#k", "/fedpost/v1/keys/https%3A%2F%2Fa.example%2Fv1%2Fu%23k", "/v1/keys/https://a.example/v1/u#k"},
		{greedy, "keys/https://a.example/v1/u#k", "/fedpost/v1/keys/https://a.example/v1/u#k", "/v1/keys/https://a.example/v1/u#k"},
	} {
		var parameters map[string]any
		if tt.proxy != "" {
			parameters = map[string]any{"proxy": tt.proxy}
		}
		for name, change := range map[string]map[string]any{
			"rest-api.json": {"resource": tt.resource, "path": tt.path, "pathParameters": parameters},
			"http-api.json": {"routeKey": "ANY " + tt.resource, "rawPath": tt.path, "pathParameters": parameters},
		} {
			if got := answer(t, fixture(t, name, change)).Path; got != tt.want {
				t.Errorf("%s: %s of %s: got %s, want %s", name, tt.path, tt.resource, got, tt.want)
			}
		}
	}
}

func TestAPathIsServedAsItWasSent(t *testing.T) {
	tests := []struct{ event, path string }{
		{"/v1/keys/plain", "/v1/keys/plain"},
		{"/v1/keys/plain%20id", "/v1/keys/plain id"},
		{"/v1/keys/plain id", "/v1/keys/plain id"},
		{"/v1/keys/100%", "/v1/keys/100%"},
		{"/v1/keys/https://a.example/größe?x=1#k", "/v1/keys/https://a.example/größe?x=1#k"},
		{"/v1/keys/https%3A%2F%2Fa.example%2F%2525", "/v1/keys/https://a.example/%25"},
		{"/v1/servers/a.example:8443/block", "/v1/servers/a.example:8443/block"},
		{"/v1/servers/größe.example", "/v1/servers/größe.example"},
		{"/v1/servers/https://a.example/pause", "/v1/servers/https://a.example/pause"},
		{"/v1/servers/https%3A%2F%2Fa.example/pause", "/v1/servers/https://a.example/pause"},
		{"", "/"},
	}
	for _, tt := range tests {
		if got := answer(t, fixture(t, "rest-api.json", map[string]any{"path": tt.event})).Path; got != tt.path {
			t.Errorf("%s: got %s, want %s", tt.event, got, tt.path)
		}
	}
}

func TestAServersNameIsOnePartOfThePath(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/servers/a.example":                       "/v1/servers/a.example",
		"/v1/servers/https://a.example/block":         "/v1/servers/https:%2F%2Fa.example/block",
		"/v1/servers/https%3A%2F%2Fa.example/unblock": "/v1/servers/https%3A%2F%2Fa.example/unblock",
		"/v1/servers/inbox:https://a.example/users/é": "/v1/servers/inbox:https:%2F%2Fa.example%2Fusers%2F%C3%A9",
	} {
		if got := newPaths(echoing.patterns).encode(path); got != want {
			t.Errorf("%s becomes %s, want %s", path, got, want)
		}
	}
}

func TestOtherEventsAreRefused(t *testing.T) {
	for _, event := range []string{`{"Records":[]}`, `{"version":"0","detail-type":"Scheduled Event"}`, `[]`, `"x"`, `{"version":2}`, `{"version":"2.0","headers":[]}`} {
		if _, err := New(echoing)(context.Background(), json.RawMessage(event)); !errors.Is(err, ErrNotAPIGateway) {
			t.Errorf("%s: got %v", event, err)
		}
	}
}

func FuzzAnEncodedPathIsAlwaysAPath(f *testing.F) {
	for _, s := range []string{"/", "/v1/keys/a#b", "/v1/keys/%zz", "/ä?", "//a/../b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if got := newPaths(echoing.patterns).encode(path); !encoded(got) {
			t.Errorf("%q becomes %q, which no URL can hold", path, got)
		}
	})
}
