// Package functions tests the three Lambda functions as they are deployed: the
// built binaries, on a Runtime API of our own, fed with events of the real
// shapes.
package functions

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"fedpost/internal/app/topology"
	"fedpost/internal/testkit/lambda"
)

// deployed is the environment that the template gives the functions, with
// changes, on an AWS that is out of reach: nothing listens on port 1.
func deployed(change ...string) map[string]string {
	e := map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_ENDPOINT_URL": "http://127.0.0.1:1",
		"TABLE_NAME":       "fedpost", "KMS_KEY_ID": "alias/fedpost",
	}
	for _, role := range []string{"high", "normal", "low", "ordered", "dead", "dead-ordered"} {
		variable := "QUEUE_URL_" + strings.ToUpper(strings.ReplaceAll(role, "-", "_"))
		e[variable] = "https://sqs.eu-central-1.amazonaws.com/123456789012/fedpost-" + role
	}
	e["QUEUE_URL_ORDERED"] += ".fifo"
	e["QUEUE_URL_DEAD_ORDERED"] += ".fifo"
	for i := 0; i < len(change); i += 2 {
		e[change[i]] = change[i+1]
	}
	return e
}

// harmless events need no AWS.
var harmless = map[string][]byte{
	"enqueue":     restEvent("GET", "/healthz", ""),
	"deliver":     []byte(`{"Records":[]}`),
	"healthcheck": fixture("rule.json"),
}

func fixture(name string) []byte {
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		panic(err)
	}
	return b
}

// restEvent and httpEvent are requests as REST APIs and HTTP APIs pass them on.
func restEvent(method, path, body string) []byte {
	return changed("rest-api.json", func(e map[string]any) {
		e["httpMethod"], e["path"] = method, path
		e["queryStringParameters"], e["multiValueQueryStringParameters"] = nil, nil
		if body != "" {
			e["body"] = body
			e["multiValueHeaders"].(map[string]any)["Content-Type"] = []string{"application/json"}
			delete(e["multiValueHeaders"].(map[string]any), "Idempotency-Key")
		}
	})
}

func httpEvent(method, path, body string) []byte {
	return changed("http-api.json", func(e map[string]any) {
		e["rawPath"], e["rawQueryString"] = path, ""
		e["requestContext"].(map[string]any)["http"].(map[string]any)["method"] = method
		if body != "" {
			e["body"], e["isBase64Encoded"] = base64.StdEncoding.EncodeToString([]byte(body)), true
			e["headers"].(map[string]any)["content-type"] = "application/json"
			delete(e["headers"].(map[string]any), "idempotency-key")
		}
	})
}

func changed(name string, change func(map[string]any)) []byte {
	var e map[string]any
	if err := json.Unmarshal(fixture(name), &e); err != nil {
		panic(err)
	}
	change(e)
	b, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return b
}

// request sends a request through the enqueue function. Both formats have
// status and body in the same fields of the answer.
func request(t *testing.T, fn *lambda.Function, event []byte) (int, string) {
	t.Helper()
	answer, err := fn.Invoke(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	var r events.APIGatewayV2HTTPResponse
	if err := json.Unmarshal(answer, &r); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	return r.StatusCode, r.Body
}

func TestABadConfigurationEndsTheStartAndNamesEveryFault(t *testing.T) {
	t.Parallel()
	for _, f := range topology.Functions {
		t.Run(f.Name, func(t *testing.T) {
			env := deployed("TABLE_NAME", "", "QUEUE_URL_LOW", "fedpost-low", "RETRY_TRIES", "many", "BETTER_AUTH_URL", "https://a.example/")
			delete(env, "QUEUE_URL_DEAD")
			_, err := start(t, f, env).Invoke(t.Context(), harmless[f.Name])
			if !errors.Is(err, lambda.ErrExited) || !strings.Contains(err.Error(), "exit status 1") {
				t.Fatalf("got %v, want a failed start", err)
			}
			want := []string{"TABLE_NAME is not set", "QUEUE_URL_LOW is", "QUEUE_URL_DEAD is not set", "RETRY_TRIES is"}
			if f.Name != "healthcheck" { // it shows nobody who we are
				want = append(want, "BETTER_AUTH_URL cannot be used")
			}
			for _, name := range want {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("the start does not say %q:\n%v", name, err)
				}
			}
		})
	}
}

func TestAMissingRegionIsNamedToo(t *testing.T) {
	env := deployed()
	delete(env, "AWS_REGION")
	_, err := start(t, topology.Enqueue, env).Invoke(t.Context(), harmless["enqueue"])
	if !errors.Is(err, lambda.ErrExited) || !strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("got %v", err)
	}
}

func TestEnqueueServesBothFormatsOfAPIGateway(t *testing.T) {
	fn := start(t, topology.Enqueue, deployed())
	tests := []struct {
		name               string
		method, path, body string
		status             int
		says               string
	}{
		// There is no table here, and the answer says so.
		{"healthz", "GET", "/healthz", "", http.StatusServiceUnavailable, "not-writable"},
		{"not JSON", "POST", "/v1/activities", "{", http.StatusBadRequest, "problem"},
		{"no such route", "GET", "/v2/nothing", "", http.StatusNotFound, "route"},
		{"wrong method", "DELETE", "/healthz", "", http.StatusMethodNotAllowed, "GET"},
	}
	for _, tt := range tests {
		for format, event := range map[string]func(string, string, string) []byte{"1.0": restEvent, "2.0": httpEvent} {
			t.Run(tt.name+" "+format, func(t *testing.T) {
				status, body := request(t, fn, event(tt.method, tt.path, tt.body))
				if status != tt.status || !(strings.Contains(body, tt.says) || tt.says == "problem" && strings.Contains(body, `"status":400`)) {
					t.Errorf("got %d %s, want %d and %q", status, body, tt.status, tt.says)
				}
			})
		}
	}
	if n := len(fn.Starts()); n != 1 {
		t.Errorf("%d starts: the process died on the way", n)
	}
}

func TestEnqueueRefusesEventsOfOthers(t *testing.T) {
	_, err := start(t, topology.Enqueue, deployed()).Invoke(t.Context(), fixture("rule.json"))
	if own, ok := errors.AsType[*lambda.Error](err); !ok || !strings.Contains(own.Message, "API Gateway") {
		t.Errorf("got %v", err)
	}
}

func TestAnEmptyBatchIsAnEmptyListNotNull(t *testing.T) {
	answer, err := start(t, topology.Deliver, deployed()).Invoke(t.Context(), []byte(`{"Records":[]}`))
	if err != nil || string(answer) != `{"batchItemFailures":[]}` {
		t.Errorf("got %s, %v", answer, err)
	}
}

func TestDeliverRefusesAQueueItIsNotConfiguredFor(t *testing.T) {
	event := strings.ReplaceAll(string(fixture("sqs.json")), "fedpost-normal", "somebody-elses")
	_, err := start(t, topology.Deliver, deployed()).Invoke(t.Context(), []byte(event))
	if own, ok := errors.AsType[*lambda.Error](err); !ok || !strings.Contains(own.Message, "somebody-elses") {
		t.Errorf("got %v, want an error of the function, so that the event source backs off", err)
	}
}

func TestAnOutageOfAWSFailsMessagesNotTheFunction(t *testing.T) {
	t.Parallel()
	fn := start(t, topology.Deliver, deployed())
	for _, name := range []string{"sqs.json", "sqs-fifo.json"} {
		answer, err := fn.Invoke(t.Context(), withBody(t, name, delivery))
		if err != nil {
			t.Fatal(err)
		}
		var r events.SQSEventResponse
		if err := json.Unmarshal(answer, &r); err != nil {
			t.Fatal(err)
		}
		var e events.SQSEvent
		if err := json.Unmarshal(fixture(name), &e); err != nil {
			t.Fatal(err)
		}
		if len(r.BatchItemFailures) != 1 || r.BatchItemFailures[0].ItemIdentifier != e.Records[0].MessageId {
			t.Errorf("%s: got %s", name, answer)
		}
	}
}

// delivery is a queue message as enqueue sends it.
const delivery = `{"v":1,"activity":{"id":"01KAG3J8Q2V4W6X8Y0Z2A4C6E8","protocol":"activitypub","body":"{\"type\":\"Like\"}",` +
	`"keyId":"https://social.example/users/frida#main-key","createdAt":"2026-03-01T10:15:30Z"},` +
	`"deliver":{"chunk":0,"pos":-1,"targets":["https://a.example/inbox"]}}`

func withBody(t *testing.T, name, body string) []byte {
	t.Helper()
	return changed(name, func(e map[string]any) {
		e["Records"].([]any)[0].(map[string]any)["body"] = body
	})
}

func TestAHealthCheckThatCannotWorkSaysSo(t *testing.T) {
	t.Parallel()
	env := deployed()
	maps.DeleteFunc(env, func(name, _ string) bool { return name == "KMS_KEY_ID" }) // it needs no keys
	_, err := start(t, topology.HealthCheck, env).Invoke(t.Context(), fixture("rule.json"))
	if own, ok := errors.AsType[*lambda.Error](err); !ok || !strings.Contains(own.Message, "shard") {
		t.Errorf("got %v, want an error that alarms", err)
	}
}
