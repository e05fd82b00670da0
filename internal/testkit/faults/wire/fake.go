package wire

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"fedpost/internal/engine/awssdk"
)

// Answer is what a fake service answers: a status, and the JSON of a value. An
// error has its code in Error.
type Answer struct {
	Status int // 0 counts as 200
	Error  string
	Body   map[string]any
}

// Start starts a service that answers every request as serve says, by operation
// ("PutItem"), and returns the configuration of clients that talk to it. They
// retry as in production, but without waiting. It stops at the test's end.
func Start(t testing.TB, serve func(operation string, body []byte) Answer) aws.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		answer := serve(operation, body)
		if answer.Body == nil {
			answer.Body = map[string]any{}
		}
		if answer.Error != "" {
			answer.Body["__type"] = "com.amazonaws.fake#" + answer.Error
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		if answer.Status != 0 {
			w.WriteHeader(answer.Status)
		}
		if err := json.NewEncoder(w).Encode(answer.Body); err != nil {
			t.Errorf("answer %s: %v", operation, err)
		}
	}))
	t.Cleanup(server.Close)
	cfg, err := awssdk.Config(func(name string) string {
		return map[string]string{"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.BaseEndpoint = &server.URL
	attempts := cfg.Retryer().MaxAttempts()
	cfg.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = attempts
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		})
	}
	return cfg
}
