package functions

import (
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"fedpost/client"
	"fedpost/internal/api"
	"fedpost/internal/app/lambda"
	"fedpost/internal/app/local"
	"fedpost/internal/app/topology"
	"fedpost/internal/engine/awssdk"
	"fedpost/internal/engine/queue"
	sqsqueue "fedpost/internal/engine/sqs"
	"fedpost/internal/testkit/caller"
	"fedpost/internal/testkit/engines/awstest"
	"fedpost/internal/testkit/fediverse"
	app "fedpost/internal/testkit/lambda"
	"fedpost/internal/testkit/lambda/gateway"
)

// cloud is the three functions on real queues and a real table, with this
// test in the place of API Gateway, the event sources and the schedule.
type cloud struct {
	*testing.T
	enqueue, check *app.Function
	deliver        atomic.Pointer[app.Function]
	recorders      map[string]*recorder // by the functions' logical ids
	client         *client.Client
	urls           map[queue.Name]string
	sqs            *sqs.Client
	env            map[string]string
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	awstest.Require(t, "SQS", "DYNAMODB")
	endpoints, key := map[string]string{
		"sqs": endpointOf("SQS"), "dynamodb": endpointOf("DYNAMODB"), "kms": cmp.Or(endpointOf("KMS"), endpointOf("SQS")),
		"secretsmanager": newVault(t, identity(t)).URL,
	}, ""
	c := &cloud{T: t, recorders: map[string]*recorder{}, sqs: awstest.SQS(t), urls: awstest.QueueURLs(t, awstest.Settings{})}
	table := awstest.TableName(t)
	key = sealingKey(t, endpoints["kms"])

	env := deployed(
		"AWS_REGION", awstest.Env("AWS_REGION"), "TABLE_NAME", table, "KMS_KEY_ID", key,
		// The inboxes are on this machine, and a retry must not take the test's time.
		"OUTBOUND_ALLOW", "127.0.0.0/8", "OUTBOUND_PLAIN_HTTP", "true", "RETRY_FIRST_WAIT", "1s", "RETRY_JITTER", "0",
		"CHECK_FIRST", "1s", "CHECK_STEP", "1s", "RELEASE_EVERY", "1s", "CIRCUIT_STREAK", "4",
	)
	delete(env, "AWS_ENDPOINT_URL")
	env["SIPHER_SECRET_ARN"] = secretARN
	resources := map[string]string{table: "Table", key: "SealingKey", secretARN: "SipherSecretArn"}
	for name, url := range c.urls {
		env["QUEUE_URL_"+strings.ToUpper(strings.ReplaceAll(string(name), "-", "_"))] = url
		resources[path.Base(url)] = logicalIDs[name]
	}
	c.env = env
	for _, id := range []string{"EnqueueFunction", "DeliverFunction", "HealthCheckFunction"} {
		c.recorders[id] = newRecorder(t, endpoints, resources)
	}
	c.enqueue = c.start("EnqueueFunction", topology.Enqueue)
	c.deliver.Store(c.start("DeliverFunction", topology.Deliver))
	c.check = c.start("HealthCheckFunction", topology.HealthCheck)
	c.client = c.through(gateway.REST)
	c.connect(awstest.Env("AWS_REGION"))
	return c
}

// start runs a function with changes to the environment.
func (c *cloud) start(id string, f topology.Function, change ...string) *app.Function {
	env := maps.Clone(c.env)
	env["AWS_ENDPOINT_URL"] = c.recorders[id].URL
	for i := 0; i < len(change); i += 2 {
		env[change[i]] = change[i+1]
	}
	return start(c.T, f, env)
}

var logicalIDs = map[queue.Name]string{
	queue.High: "HighQueue", queue.Normal: "NormalQueue", queue.Low: "LowQueue",
	queue.Ordered: "OrderedQueue", queue.Dead: "DeadQueue", queue.DeadOrdered: "DeadOrderedQueue",
}

func endpointOf(service string) string {
	return cmp.Or(awstest.Env("AWS_ENDPOINT_URL_"+service), awstest.Env("AWS_ENDPOINT_URL"))
}

// sealingKey makes a key on a server that has KMS.
func sealingKey(t *testing.T, endpoint string) string {
	t.Helper()
	kmsClient, err := awssdk.KMS(awstest.Config(t), func(name string) string {
		if name == "AWS_ENDPOINT_URL_KMS" {
			return endpoint
		}
		return awstest.Env(name)
	})
	if err != nil {
		t.Fatal(err)
	}
	made, err := kmsClient.CreateKey(t.Context(), &kms.CreateKeyInput{})
	if err != nil {
		t.Skipf("the functions cannot seal keys: the server at %s makes no KMS key: %v", endpoint, err)
	}
	return *made.KeyMetadata.KeyId
}

// through returns a client whose requests reach the enqueue function as events
// of a format.
func (c *cloud) through(f gateway.Format) *client.Client {
	return caller.Of(c, "https://api.example", caller.Through(gateway.Transport{Format: f, Invoke: c.enqueue.Invoke}))
}

// connect runs an event source for each queue until the test ends.
func (c *cloud) connect(region string) {
	sources, err := lambda.Sources(region, c.urls)
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var mappings []local.Mapping
	for arn, name := range sources {
		mappings = append(mappings, local.Mapping{
			Queue: sqsqueue.New(c.sqs, c.urls[name], name, queue.Standard), Name: name,
			BatchSize: topology.Of(name).BatchSize, Messages: topology.Of(name).BatchSize, Timeout: topology.Deliver.Timeout,
			Handler: app.Through(arn, func(ctx context.Context, event []byte) ([]byte, error) { return c.deliver.Load().Invoke(ctx, event) }), Log: slog.New(slog.NewTextHandler(newTestWriter(c.T), nil)),
		})
	}
	done := make(chan struct{}, len(mappings))
	for _, m := range mappings {
		go func() { m.Run(ctx); done <- struct{}{} }()
	}
	c.Cleanup(func() {
		cancel()
		for range mappings {
			<-done
		}
	})
}

// settled waits until an activity is done.
func (c *cloud) settled(id string) client.Status {
	c.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		s, err := c.client.Activity(c.Context(), id)
		if err != nil {
			c.Fatal(err)
		}
		if s.Status == "done" {
			return s
		}
		if time.Now().After(deadline) {
			c.Fatalf("activity %s is not done after a minute: %+v", id, s)
		}
		awstest.Wait(c, 100*time.Millisecond)
	}
}

const keyID = "https://social.example/users/frida#main-key"

func publicKey(t *testing.T, text string) crypto.PublicKey {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		t.Fatalf("no PEM: %s", text)
	}
	k, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestTheFunctionsDeliver sends activities all the way through the built
// binaries, and then holds each function's role in the template against the
// calls that it made.
func TestTheFunctionsDeliver(t *testing.T) {
	c := newCloud(t)
	key, err := c.client.GenerateKey(t.Context(), keyID, "rsa")
	if err != nil {
		t.Fatal(err)
	}
	inbox := fediverse.NewInbox(map[string]crypto.PublicKey{keyID: publicKey(t, key.PublicKeyPEM)})
	server := httptest.NewServer(inbox)
	defer server.Close()
	same, err := c.through(gateway.HTTP).Key(t.Context(), keyID)
	if err != nil || same != key {
		t.Fatalf("the key through an HTTP API: %+v, %v", same, err)
	}

	// Every queue, both formats, bytes that do not survive re-encoding.
	fixtures := []string{"mastodon-create-note", "mastodon-delete", "misskey-like", "pixelfed-create-note", "lemmy-announce"}
	want := map[string]int{}
	for i, name := range fixtures {
		body := fediverse.Fixture(name)
		s := client.Submission{
			Activity: json.RawMessage(strings.TrimSpace(body)), KeyID: keyID, AllowKeyOfOther: true, DeduplicationKey: name,
			Recipients: client.To(server.URL+"/a/"+name, server.URL+"/b/"+name),
		}
		want[strings.TrimSpace(body)] += 2
		if i == len(fixtures)-1 {
			s.OrderingKey = "thread-1"
		}
		via := c.through([]gateway.Format{gateway.REST, gateway.HTTP}[i%2])
		a, err := via.Send(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := via.Send(t.Context(), s)
		if err != nil || again.Status != "duplicate" || again.ID != a.ID {
			t.Errorf("%s a second time: %+v, %v", name, again, err)
		}
		if got := c.settled(a.ID); got.Counts["delivered"] != 2 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, p := range inbox.Accepted() {
		want[p.Body]--
	}
	for body, left := range want {
		if left != 0 {
			t.Errorf("%d deliveries are missing (or, below zero, too many) of %.80s…", left, body)
		}
	}

	if answer, err := c.check.Invoke(t.Context(), fixture("rule.json")); err != nil || string(answer) != "null" {
		t.Errorf("health check: %s, %v", answer, err)
	}
}

// TestPartialFailuresAreHonoured: one recipient stumbles twice, the other must
// not get it again.
func TestPartialFailuresAreHonoured(t *testing.T) {
	c := newCloud(t)
	key, err := c.client.GenerateKey(t.Context(), keyID, "ed25519")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]crypto.PublicKey{keyID: publicKey(t, key.PublicKeyPEM)}
	healthy, stumbling := fediverse.NewInbox(keys), fediverse.NewInbox(keys).Then(fediverse.Status(503), fediverse.Status(503))
	a, b := httptest.NewServer(healthy), httptest.NewServer(stumbling)
	defer a.Close()
	defer b.Close()
	sent, err := c.client.Send(t.Context(), client.Submission{
		Activity: json.RawMessage(fediverse.Fixture("mastodon-follow")), KeyID: keyID, AllowKeyOfOther: true, Recipients: client.To(a.URL+"/inbox", b.URL+"/inbox"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.settled(sent.ID); got.Counts["delivered"] != 2 {
		t.Errorf("got %+v", got)
	}
	if n, m := len(healthy.Posts()), len(stumbling.Posts()); n != 1 || m != 3 {
		t.Errorf("%d and %d requests, want 1 and 3", n, m)
	}
}

// eventLimit is what Lambda takes as one event, in bytes.
const eventLimit = 6 << 20

// TestTheLargestRequestFitsIntoTheFunction: as many recipients as the API takes in
// one call, within Lambda's limits and the memory that the template gives.
func TestTheLargestRequestFitsIntoTheFunction(t *testing.T) {
	c := newCloud(t)
	if _, err := c.client.GenerateKey(t.Context(), keyID, "ed25519"); err != nil {
		t.Fatal(err)
	}
	largest := 0
	via := caller.Of(t, "https://api.example", caller.Through(gateway.Transport{Format: gateway.REST, Invoke: func(ctx context.Context, event []byte) ([]byte, error) {
		largest = max(largest, len(event))
		return c.enqueue.Invoke(ctx, event)
	}}))
	submission := client.Submission{
		Activity: json.RawMessage(strings.TrimSpace(fediverse.Fixture("mastodon-create-note"))), KeyID: keyID, AllowKeyOfOther: true,
		Delay: client.Duration(24 * time.Hour), // accepted, recorded, and not sent in this test
	}
	// Both inboxes, long names: as many as fit, and one more.
	bytes := func() int {
		body, err := submission.Encode()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(string(body))
		if err != nil {
			t.Fatal(err)
		}
		return len(text) - 2
	}
	recipient := func(i int) client.Recipient {
		host := fmt.Sprintf("https://%05d.%s.example", i, strings.Repeat("social", 8))
		return client.Recipient{Inbox: host + "/users/somebody/inbox", SharedInbox: host + "/inbox"}
	}
	const least = 20_000
	for i := range least {
		submission.Recipients = append(submission.Recipients, recipient(i))
	}
	for each := bytes() / least; bytes()+each+10 <= api.MaxRequest; {
		for range max(1, (api.MaxRequest-bytes())/(2*each)) {
			submission.Recipients = append(submission.Recipients, recipient(len(submission.Recipients)))
		}
	}
	recipients := submission.Recipients
	submission.Recipients = append(slices.Clone(recipients), recipient(len(recipients)), recipient(len(recipients)+1))
	var p *client.Problem
	if _, err := via.Send(t.Context(), submission); !errors.As(err, &p) || p.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("two recipients too many: %v", err)
	}
	submission.Recipients, largest = recipients, 0
	began := time.Now()
	a, err := via.Send(t.Context(), submission)
	took := time.Since(began)
	if err != nil || a.Recipients != len(recipients) {
		t.Fatalf("got %+v, %v", a, err)
	}
	memory, err := c.enqueue.PeakMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d recipients, event of %.2f MiB, accepted in %s, peak memory %d MiB", len(recipients), float64(largest)/(1<<20), took.Round(time.Millisecond), memory>>20)
	if largest > eventLimit {
		t.Errorf("the event has %d bytes, Lambda takes %d", largest, eventLimit)
	}
	if half := int64(topology.Enqueue.Memory) << 20 / 2; memory > half {
		t.Errorf("peak memory %d bytes, more than half of the function's", memory)
	}
}
