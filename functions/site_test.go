package functions

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/app/local"
	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
	"fedpost/internal/protocol/webhook"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/store"
	"fedpost/internal/testkit/caller"
	"fedpost/internal/testkit/cost"
	"fedpost/internal/testkit/fediverse"
	"fedpost/internal/testkit/lambda"
	"fedpost/internal/testkit/lambda/gateway"
	"fedpost/internal/testkit/template"
)

// site is the three built functions on a stand-in for AWS, and what CloudWatch would
// have recorded of them, five minutes at a time.
type site struct {
	*testing.T
	aws    *standIn
	env    map[string]string
	client *client.Client
	inbox  *fediverse.Inbox
	server *httptest.Server

	running map[string]*lambda.Function // by logical id
	printed *printed
	deliver lambda.Options // Memory and Share of the deliver function; 0: as deployed

	mu       sync.Mutex
	counts   map[string]float64 // of this period
	recorded template.Recorded
}

// stackName is what AWS::StackName stands for.
const stackName = "site"

// printed is what functions print.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// take returns the lines printed since the last call.
func (p *printed) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.text.Reset()
	return strings.Split(strings.TrimSpace(p.text.String()), "\n")
}

// newSite makes a site with a signing key and a healthy inbox.
func newSite(t *testing.T, change ...string) *site {
	t.Helper()
	s := &site{
		T: t, aws: newStandIn(t), printed: &printed{}, running: map[string]*lambda.Function{},
		counts: map[string]float64{}, recorded: template.Recorded{},
	}
	s.env = s.aws.environment(append([]string{
		"OUTBOUND_PLAIN_HTTP", "true", "METRICS_NAMESPACE", stackName, "RETRY_FIRST_WAIT", "1s",
	}, change...)...)
	t.Cleanup(s.stop)
	s.client = caller.Of(t, "https://api.example", caller.Through(gateway.Transport{
		Format: gateway.REST,
		Invoke: func(ctx context.Context, event []byte) ([]byte, error) {
			return s.invoke(ctx, "EnqueueFunction", event)
		},
	}))
	key, err := s.client.GenerateKey(t.Context(), keyID, "ed25519")
	if err != nil {
		t.Fatal(err)
	}
	s.inbox = fediverse.NewInbox(map[string]crypto.PublicKey{keyID: publicKey(t, key.PublicKeyPEM)})
	s.server = httptest.NewServer(s.inbox)
	t.Cleanup(s.server.Close)
	return s
}

var functionsByID = map[string]topology.Function{
	"EnqueueFunction": topology.Enqueue, "DeliverFunction": topology.Deliver, "HealthCheckFunction": topology.HealthCheck,
}

// function returns a function, started if it is not running.
func (s *site) function(id string) *lambda.Function {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[id] == nil {
		f := functionsByID[id]
		o := lambda.Options{
			Binary: filepath.Join(binaries, f.Name), Name: id, Env: s.env, Timeout: f.Timeout, Memory: f.Memory, Logs: s.printed,
		}
		if id == "DeliverFunction" {
			o.Memory, o.Share = cmp.Or(s.deliver.Memory, o.Memory), s.deliver.Share
		}
		s.running[id] = lambda.New(o)
	}
	return s.running[id]
}

// stop ends all functions: the next calls start them anew, without their memory. All of their
// output has arrived by then.
func (s *site) stop() {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, fn := range s.running {
		if err := fn.Close(); err != nil {
			s.Error(err)
		}
		delete(s.running, id)
	}
}

// invoke is one invocation, as Lambda counts it.
func (s *site) invoke(ctx context.Context, id string, event []byte) ([]byte, error) {
	answer, err := s.function(id).Invoke(ctx, event)
	s.count("AWS/Lambda Invocations FunctionName="+id, 1)
	if err != nil {
		s.count("AWS/Lambda Errors FunctionName="+id, 1)
	}
	return answer, err
}

func (s *site) count(metric string, n float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[metric] += n
}

// call makes a request to the API and counts an answer of 5xx, as API Gateway does.
func (s *site) call(f func(*client.Client) error) {
	s.Helper()
	var p *client.Problem
	switch err := f(s.client); {
	case errors.As(err, &p) && p.Status >= http.StatusInternalServerError:
		s.count("AWS/ApiGateway 5XXError ApiName=AWS::StackName", 1)
	case err != nil:
		s.Error(err)
	}
}

func submission(inboxes ...string) client.Submission {
	return client.Submission{
		Activity:   json.RawMessage(`{"type":"Create","actor":"https://social.example/users/frida","object":{"type":"Note","content":"größer"}}`),
		KeyID:      keyID,
		Recipients: client.To(inboxes...),
	}
}

// submit submits an activity to the API.
func (s *site) submit(inboxes ...string) {
	s.Helper()
	s.call(func(c *client.Client) error { _, err := c.Send(s.Context(), submission(inboxes...)); return err })
}

// work gives the messages on the queues to the deliver function, once.
func (s *site) work() {
	s.Helper()
	for _, name := range topology.Sources {
		suffix := ""
		if name.Ordered() {
			suffix = ".fifo"
		}
		m := local.Mapping{
			Queue: cost.EstimateQueue(s.aws.used, s.aws.engine.Queue(name)), Name: name, BatchSize: topology.Of(name).BatchSize, Timeout: topology.Deliver.Timeout,
			Handler: lambda.Through("arn:aws:sqs:eu-central-1:123456789012:fedpost-"+string(name)+suffix, func(ctx context.Context, event []byte) ([]byte, error) {
				return s.invoke(ctx, "DeliverFunction", event)
			}),
		}
		if _, err := m.PollOnce(s.Context()); err != nil {
			s.Log(err)
		}
	}
}

// check runs the schedule once.
func (s *site) check() {
	if _, err := s.invoke(s.Context(), "HealthCheckFunction", fixture("rule.json")); err != nil {
		s.Log(err)
	}
}

// exhaust makes a server that is down for seven days.
func (s *site) exhaust() {
	s.Helper()
	now := time.Now()
	_, _, err := circuit.Change(s.Context(), store.New(s.aws.engine.Table(), time.Now), circuit.HostKey("127.0.0.1:1"),
		func(down circuit.State) circuit.State {
			down.Phase, down.Checks, down.Parked, down.CheckAt = circuit.Unhealthy, 10, true, now.Add(-time.Second)
			down.Since = now.Add(-7*24*time.Hour - time.Minute)
			down.DownSince = down.Since
			return down
		})
	if err != nil {
		s.Fatal(err)
	}
}

// failWebhook makes a webhook that has failed for two hours.
func (s *site) failWebhook() {
	s.Helper()
	now := time.Now()
	w := webhook.Webhook{ID: "app", URL: "https://app.example/hook", CreatedAt: now.Add(-3 * time.Hour), FailingSince: now.Add(-2 * time.Hour), LastError: "answered 500"}
	if _, err := store.New(s.aws.engine.Table(), time.Now).SaveWebhook(s.Context(), w); err != nil && !errors.Is(err, webhook.ErrChanged) {
		s.Fatal(err)
	}
}

// period lets five minutes pass in which f happens, and records their metrics.
func (s *site) period(f func()) []string {
	s.Helper()
	f()
	s.stop()
	lines := s.printed.take()
	for _, line := range lines {
		s.embedded(line)
	}
	for name, id := range map[queue.Name]string{queue.Dead: "DeadQueue", queue.DeadOrdered: "DeadOrderedQueue"} {
		d, err := s.aws.engine.Queue(name).Depth(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		s.count("AWS/SQS ApproximateNumberOfMessagesVisible QueueName="+id, float64(d.Visible))
	}
	s.aws.mu.Lock()
	for metric, n := range s.aws.throttled {
		s.count("AWS/DynamoDB "+metric+" TableName=Table", float64(n))
	}
	s.aws.throttled = map[string]int{}
	s.aws.mu.Unlock()
	before := 0
	for _, series := range s.recorded {
		before = max(before, len(series))
	}
	for metric, n := range s.counts {
		for len(s.recorded[metric]) < before {
			s.recorded[metric] = append(s.recorded[metric], math.NaN())
		}
		s.recorded[metric] = append(s.recorded[metric], n)
	}
	s.counts = map[string]float64{}
	return lines
}

// again records the metrics of the last period once more.
func (s *site) again() {
	periods := 0
	for _, series := range s.recorded {
		periods = max(periods, len(series))
	}
	for metric, series := range s.recorded {
		if len(series) == periods {
			s.recorded[metric] = append(series, series[periods-1])
		}
	}
}

// embedded counts a line in CloudWatch's embedded metric format.
func (s *site) embedded(line string) {
	var l map[string]any
	if json.Unmarshal([]byte(line), &l) != nil || l["_aws"] == nil {
		return
	}
	for _, d := range l["_aws"].(map[string]any)["CloudWatchMetrics"].([]any) {
		directive := d.(map[string]any)
		for _, m := range directive["Metrics"].([]any) {
			name := m.(map[string]any)["Name"].(string)
			if directive["Namespace"] != stackName {
				s.Errorf("a metric in the namespace %v", directive["Namespace"])
			}
			s.count("AWS::StackName "+name, l[name].(float64))
		}
	}
}

// ringing returns the names of the alarms that go off on what was recorded.
func (s *site) ringing() map[string]bool {
	s.Helper()
	tmpl, err := template.Load("../template.yaml")
	if err != nil {
		s.Fatal(err)
	}
	on := map[string]bool{}
	for name, a := range tmpl.Alarms() {
		rings, err := a.Rings(s.recorded)
		if err != nil {
			s.Fatal(err)
		}
		if rings {
			on[name] = true
		}
	}
	return on
}
