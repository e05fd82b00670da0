package engines

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"fedpost/internal/engine/awssdk"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/faults/wire"
)

// TestOnlyWhatAPlanHasBrokenIsNotRetried: on a starved machine a server closes connections
// that the test has not used for some seconds, and a request that meets this failed although
// no plan had broken it.
func TestOnlyWhatAPlanHasBrokenIsNotRetried(t *testing.T) {
	for name, c := range map[string]struct {
		plan     *faults.Plan
		broken   int64 // requests that the server breaks
		requests int64
		injected bool
	}{
		"the server breaks a request":                         {plan: faults.NewPlan(), broken: 1, requests: 2},
		"the plan breaks a request":                           {plan: faults.NewPlan(faults.Fault{Call: 1, Kind: faults.FailBefore}), injected: true},
		"the plan loses an answer":                            {plan: faults.NewPlan(faults.Fault{Call: 1, Kind: faults.ActThenLose}), requests: 1, injected: true},
		"the plan breaks the retry of what the server breaks": {plan: faults.NewPlan(faults.Fault{Call: 2, Kind: faults.FailBefore}), broken: 1, requests: 1, injected: true},
		"the process dies after a request":                    {plan: faults.NewPlan(faults.Fault{Call: 1, Kind: faults.DieAfter}), requests: 1, injected: true},
		"the process dies before the retry":                   {plan: faults.NewPlan(faults.Fault{Call: 2, Kind: faults.DieBefore}), broken: 1, requests: 1, injected: true},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) <= c.broken {
					panic(http.ErrAbortHandler) // closes the connection
				}
				w.Header().Set("Content-Type", "application/x-amz-json-1.0")
				if _, err := io.WriteString(w, `{"QueueUrl":"q"}`); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			cfg, err := awssdk.Config(func(name string) string {
				return map[string]string{"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}[name]
			})
			if err != nil {
				t.Fatal(err)
			}
			cfg.BaseEndpoint = &server.URL
			cfg.Retryer = unplanned(cfg.Retryer)
			cfg.APIOptions = append(cfg.APIOptions, wire.Plan(c.plan))
			_, err = sqs.NewFromConfig(cfg).GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("q")})
			if injected := errors.Is(err, faults.ErrInjected) || errors.Is(err, faults.ErrDead); injected != c.injected || err != nil && !injected {
				t.Errorf("error %v", err)
			}
			if n := requests.Load(); n != c.requests {
				t.Errorf("%d requests came, want %d", n, c.requests)
			}
		})
	}
}
