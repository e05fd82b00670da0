package sipher_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"fedpost/client"
	"fedpost/internal/app/lambda/apigateway"
	"fedpost/internal/testkit/sipherpeer"
)

func TestThePayloadArrivesByteForByteThroughQueueAndTable(t *testing.T) {
	big := strings.Replace(postPayload, "Tee", strings.Repeat(`\u2615 "<&>`, 20_000), 1)
	for name, payload := range map[string]string{
		"follow": followPayload, "post": postPayload, "spaces": " \n\t" + postPayload + "\r\n", "large": strings.ReplaceAll(big, `"<&>`, `<&>`),
	} {
		for _, ordering := range []string{"", "alice"} {
			t.Run(name+ordering, func(t *testing.T) {
				run(t, func(t *testing.T, w *world) {
					w.acquainted(w.b)
					// The first try fails, so it is carried by a second message, too.
					w.b.Behave(sipherpeer.Behavior{Status: 500}, sipherpeer.Behavior{})
					s := job("deliver-post", sipherpeer.PostsPath, payload)
					if strings.Contains(payload, `"FEDERATE"`) {
						s.Recipients = client.To(urlB + sipherpeer.FollowsPath)
					}
					s.OrderingKey = ordering
					if r := w.ends(w.send(s)); r.State != "delivered" || r.Attempts != 2 {
						t.Errorf("recipient: %s", brief(r))
					}
					got := w.b.Deliveries()
					if len(got) != 2 || got[0].Plaintext != payload || got[1].Plaintext != payload || !got[1].Signed || len(got[1].Faults) > 0 {
						t.Errorf("B got %d deliveries", len(got))
					}
				})
			})
		}
	}
}

// events are what API Gateway sends for a request to /discover.
var events = map[string]string{
	"REST API": `{"resource":"/discover","path":"/discover","httpMethod":%q,"headers":{"Host":"social.example","X-Forwarded-For":"203.0.113.9, 198.51.100.1","Content-Type":"application/json"},` +
		`"multiValueHeaders":{"Host":["social.example"],"X-Forwarded-For":["203.0.113.9, 198.51.100.1"],"Content-Type":["application/json"]},"requestContext":{"resourcePath":"/discover","httpMethod":%[1]q,"path":"/live/discover","stage":"live","identity":{"sourceIp":%q}},"body":%q,"isBase64Encoded":false}`,
	"HTTP API": `{"version":"2.0","routeKey":"$default","rawPath":"/live/discover","rawQueryString":"","headers":{"host":"social.example","x-forwarded-for":"203.0.113.9, 198.51.100.1","content-type":"application/json"},` +
		`"requestContext":{"stage":"live","http":{"method":%q,"path":"/live/discover","protocol":"HTTP/1.1","sourceIp":%q,"userAgent":"x"}},"body":%q,"isBase64Encoded":false}`,
}

// TestDiscoverIsServedToAnybodyThroughAPIGateway: without authentication, and limited by the
// address that API Gateway has seen, not by what a caller writes into X-Forwarded-For.
func TestDiscoverIsServedToAnybodyThroughAPIGateway(t *testing.T) {
	for name, event := range events {
		t.Run(name, func(t *testing.T) {
			settings := map[string]string{"SIPHER_DISCOVER_RATE": "2"}
			runWith(t, options{settings: settings, token: "a secret of the API"}, func(t *testing.T, w *world) {
				handler := apigateway.New(w.api)
				call := func(method, from, body string) (int, string) {
					t.Helper()
					out, err := handler(t.Context(), json.RawMessage(fmt.Sprintf(event, method, from, body)))
					if err != nil {
						t.Fatal(err)
					}
					raw, err := json.Marshal(out)
					if err != nil {
						t.Fatal(err)
					}
					var answer struct {
						StatusCode int
						Body       string
					}
					if err := json.Unmarshal(raw, &answer); err != nil {
						t.Fatal(err)
					}
					return answer.StatusCode, answer.Body
				}
				status, body := call("GET", "192.0.2.1", "")
				if status != 200 || !strings.Contains(body, w.a.PublicKey()) || !strings.Contains(body, `"url":"`+urlA+`"`) {
					t.Errorf("GET /discover is answered %d %s, want 200 with our key and address", status, body)
				}
				registration := fmt.Sprintf(`{"method":"REGISTER","url":%q,"publicKey":%q,"encryptionPublicKey":%q}`, urlB, w.b.PublicKey(), w.b.EncryptionKey())
				if status, body := call("POST", "192.0.2.1", registration); status != 200 || !strings.Contains(body, "echo") {
					t.Errorf("a registration is answered %d %s, want 200 with an echo", status, body)
				}
				if got := w.net.Asked(); !slices.Equal(got, []string{askB}) {
					t.Errorf("asked %v", got)
				}
				if status, _ := call("GET", "192.0.2.1", ""); status != http.StatusTooManyRequests {
					t.Errorf("the third request of one address: %d", status)
				}
				if status, _ := call("GET", "192.0.2.2", ""); status != 200 {
					t.Errorf("another address: %d", status)
				}
			})
		})
	}
}

func TestDiscoverNeedsNoTokenAndEverythingElseDoes(t *testing.T) {
	runWith(t, options{token: "a secret of the API"}, func(t *testing.T, w *world) {
		for path, want := range map[string]int{"/discover": 200, "/v1/follows": 401, "/v1/servers": 401, "/discover/": 401} {
			rec := httptest.NewRecorder()
			w.api.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
			if rec.Code != want {
				body, err := io.ReadAll(rec.Body)
				t.Errorf("%s: %d %s %v, want %d", path, rec.Code, body, err, want)
			}
		}
	})
}
