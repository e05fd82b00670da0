package functions

import (
	"crypto"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqs"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/engines/awstest"
	"fedpost/internal/testkit/fediverse"
	"fedpost/internal/testkit/template"
)

// eventSource is what Lambda does with the deliver function's role.
// https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html#events-sqs-permissions
var eventSource = map[string]string{
	"sqs:ReceiveMessage":     "the event source receives",
	"sqs:DeleteMessage":      "the event source deletes",
	"sqs:GetQueueAttributes": "the event source looks at the queue",
}

// logging is what Lambda does with every function's role.
var logging = map[string]string{
	"logs:CreateLogStream": "Lambda writes the log",
	"logs:PutLogEvents":    "Lambda writes the log",
}

// tracing is what Lambda does with every function's role if the stack has X-Ray.
var tracing = map[string]string{
	"xray:PutTraceSegments":    "Lambda and the collector write traces",
	"xray:PutTelemetryRecords": "Lambda and the collector write traces",
}

// TestEachRoleAllowsWhatItsFunctionCallsAndNothingElse causes everything that makes a function call
// something new, and compares the calls with the template: a missing permission fails, and so does
// an unused one.
func TestEachRoleAllowsWhatItsFunctionCallsAndNothingElse(t *testing.T) {
	c := newCloud(t)
	key, err := c.client.GenerateKey(t.Context(), keyID, "ed25519")
	if err != nil {
		t.Fatal(err)
	}
	inbox := fediverse.NewInbox(map[string]crypto.PublicKey{keyID: publicKey(t, key.PublicKeyPEM)})
	server := httptest.NewServer(inbox)
	defer server.Close()

	c.everyQueue(server.URL)
	c.manyRecipients(server.URL)
	c.largeBatch(server.URL)
	c.cancelled(server.URL)
	c.malformed()
	c.stumble(server.URL, inbox)
	c.dead(server.URL, inbox)
	c.outage()
	c.operator()
	c.delayed(server.URL)

	tmpl, err := template.Load("../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	excuses := map[string]map[string]string{
		"EnqueueFunction": {
			"dynamodb:ConditionCheckItem": "an ordered activity is recorded near the turn of a deduplication period",
		},
		"DeliverFunction": eventSource,
		"HealthCheckFunction": {
			"events:PutEvents": "the stack names an event bus; this one names none",
		},
	}
	for id, r := range c.recorders {
		r.show(t, id)
		all := map[string]string{}
		for _, m := range []map[string]string{logging, tracing, excuses[id]} {
			for action, why := range m {
				all[action] = why
			}
		}
		r.compare(t, tmpl, id, all)
	}
}

func (c *cloud) submit(s client.Submission) string {
	c.Helper()
	if s.Activity == nil {
		s.Activity = json.RawMessage(`{"type":"Create","actor":"https://social.example/users/frida"}`)
	}
	s.KeyID = keyID
	a, err := c.client.Send(c.Context(), s)
	if err != nil {
		c.Fatal(err)
	}
	return a.ID
}

func (c *cloud) everyQueue(server string) {
	for i, s := range []client.Submission{
		{Priority: "high"}, {Priority: "normal", DeduplicationKey: "once"}, {Priority: "low"}, {OrderingKey: "thread", DeduplicationKey: "once"},
	} {
		s.Recipients = client.To(fmt.Sprintf("%s/queue/%d", server, i))
		c.settled(c.submit(s))
	}
}

// manyRecipients are more than one chunk.
func (c *cloud) manyRecipients(server string) {
	var all []string
	for i := range 120 {
		all = append(all, fmt.Sprintf("%s/many/%d", server, i))
	}
	c.settled(c.submit(client.Submission{Recipients: client.To(all...)}))
}

// largeBatch exceeds a queue message, so it travels by reference.
func (c *cloud) largeBatch(server string) {
	var parts []string
	for i := range 10 {
		parts = append(parts, fmt.Sprintf(`{"activity":{"type":"Create","actor":"https://social.example/users/frida","content":%q},"keyId":%q,"recipients":[%q]}`,
			randomText(200<<10), keyID, fmt.Sprintf("%s/large/%d", server, i)))
	}
	var answer struct {
		Activities []struct{ ID string }
	}
	err := c.client.Do(c.Context(), http.MethodPost, "/v1/activities/batch", []byte(`{"activities":[`+strings.Join(parts, ",")+`]}`), &answer)
	if err != nil {
		c.Fatal(err)
	}
	if len(answer.Activities) != 10 {
		c.Fatalf("%d activities of 10", len(answer.Activities))
	}
	for _, a := range answer.Activities {
		c.settled(a.ID)
	}
}

func (c *cloud) cancelled(server string) {
	id := c.submit(client.Submission{Recipients: client.To(server + "/cancelled"), Delay: client.Duration(time.Hour)})
	if err := c.client.Do(c.Context(), http.MethodPost, "/v1/activities/"+id+"/cancel", nil, nil); err != nil {
		c.Fatal(err)
	}
}

// malformed messages go to the dead-letter queue.
func (c *cloud) malformed() {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		m := queue.Message{Body: "not ours"}
		if name.Ordered() {
			m.OrderingKey, m.DeduplicationKey = "group", "malformed"
		}
		if err := sqs.New(c.sqs, c.urls[name], name, queue.Standard).Send(c.Context(), m); err != nil {
			c.Fatal(err)
		}
		c.until("the message is in the dead-letter queue", func() bool {
			d, err := sqs.New(c.sqs, c.urls[name.DeadLetter()], name.DeadLetter(), queue.Standard).Depth(c.Context())
			return err == nil && d.Visible > 0
		})
	}
}

// stumble: a delivery comes back by the queue's visibility timeout, and is tried again.
func (c *cloud) stumble(server string, inbox *fediverse.Inbox) {
	inbox.Then(fediverse.Status(503), fediverse.Status(503))
	c.settled(c.submit(client.Submission{Recipients: client.To(server + "/stumbles")}))
}

// dead: a recipient is given up, and revived by an operator.
func (c *cloud) dead(server string, inbox *fediverse.Inbox) {
	patient := c.deliver.Swap(c.start("DeliverFunction", topology.Deliver, "RETRY_TRIES", "1", "RETRY_PARK", "false"))
	inbox.Then(fediverse.Status(503))
	id := c.submit(client.Submission{Recipients: client.To(server + "/dies")})
	if s := c.settled(id); s.Counts["dead"] != 1 {
		c.Fatalf("got %+v", s)
	}
	c.deliver.Store(patient)
	var revived struct{ Retried int }
	err := c.client.Do(c.Context(), http.MethodPost, "/v1/dead-letters/retry", []byte(`{"activity":"`+id+`"}`), &revived)
	if err != nil || revived.Retried != 1 {
		c.Fatalf("revived %d, %v", revived.Retried, err)
	}
	c.until("the revived is delivered", func() bool {
		s, err := c.client.Activity(c.Context(), id)
		return err == nil && s.Counts["delivered"] == 1
	})
}

// operator looks around and intervenes.
func (c *cloud) operator() {
	for _, call := range []struct{ method, path, body string }{
		{"GET", "/v1/stats", ""},
		{"GET", "/v1/servers", ""},
		{"GET", "/v1/dead-letters", ""},
		{"GET", "/v1/follows", ""},
		{"PUT", "/v1/servers/slow.example", `{"rateLimit":{"perMinute":60}}`},
		{"GET", "/v1/servers/slow.example", ""},
		{"POST", "/v1/servers/spam.example/block", `{"reason":"spam"}`},
		{"POST", "/v1/servers/spam.example/unblock", ""},
		{"PUT", "/v1/webhooks/app", `{"url":"https://app.example/hook"}`},
		{"DELETE", "/v1/webhooks/app", ""},
	} {
		var body []byte
		if call.body != "" {
			body = []byte(call.body)
		}
		if err := c.client.Do(c.Context(), call.method, call.path, body, nil); err != nil {
			c.Error(err)
		}
	}
}

// outage: a server is down, is found to be back, and gets what was parked.
func (c *cloud) outage() {
	listener := e2e.Listen(c)
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		c.Fatal(err)
	}
	var ids []string
	for i := range 14 {
		ids = append(ids, c.submit(client.Submission{
			// Bodies so large that they are parked apart from the deliveries.
			Activity: json.RawMessage(`{"type":"Create","actor":"https://social.example/users/frida","content":"` + randomText(8<<10) + `"}`),
			Priority: "high", OrderingKey: []string{"", "down"}[i/12],
			Recipients: client.To(fmt.Sprintf("http://%s/a/inbox", address), fmt.Sprintf("http://%s/b/inbox", address)),
		}))
	}
	for _, id := range ids {
		c.until("it is parked", func() bool {
			s, err := c.client.Activity(c.Context(), id)
			return err == nil && s.Counts["parked"] == 2
		})
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		c.Fatal(err)
	}
	back := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })}
	go func() { _ = back.Serve(listener) }() // until it is closed
	c.Cleanup(func() { back.Close() })
	c.until("the server has what it missed", func() bool {
		c.schedule()
		done := 0
		for _, id := range ids {
			if s, err := c.client.Activity(c.Context(), id); err == nil && s.Counts["delivered"] == 2 {
				done++
			}
		}
		return done == len(ids)
	})
}

// delayed: the ordered queue has no delays, so the table has them.
func (c *cloud) delayed(server string) {
	id := c.submit(client.Submission{Recipients: client.To(server + "/later"), OrderingKey: "later", Delay: client.Duration(time.Second)})
	c.until("it is released and delivered", func() bool {
		c.schedule()
		s, err := c.client.Activity(c.Context(), id)
		return err == nil && s.Status == "done"
	})
}

// schedule is a minute's run.
func (c *cloud) schedule() {
	c.Helper()
	if _, err := c.check.Invoke(c.Context(), fixture("rule.json")); err != nil {
		c.Fatal(err)
	}
}

// until waits for something to become true.
func (c *cloud) until(what string, f func() bool) {
	c.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); awstest.Wait(c, 100*time.Millisecond) {
		if time.Now().After(deadline) {
			c.Fatalf("after a minute still not: %s", what)
		}
	}
}

// randomText does not compress.
func randomText(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(rand.Text())
	}
	return b.String()
}
