package functions

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"fedpost/internal/engine/dynamodb"
	"fedpost/internal/testkit/template"
)

// recorder is a proxy in front of AWS's services that records what a function calls: each function
// has its own, so its calls can be compared with its role. The protocol's target header names the
// service.
type recorder struct {
	*httptest.Server
	endpoints map[string]*url.URL // by the target's prefix
	resources map[string]string   // logical ids by the names in requests

	mu    sync.Mutex
	calls map[template.Grant]bool
	// keys are the requests that name keys of the table, as IAM judges them: each
	// with all of its partition keys.
	keys []keyed
}

// keyed is an action and the partition keys that one request names.
type keyed struct {
	template.Grant
	partitions []string
}

// services by the prefix of X-Amz-Target.
var services = map[string]string{"AmazonSQS": "sqs", "DynamoDB_20120810": "dynamodb", "TrentService": "kms", "secretsmanager": "secretsmanager"}

func newRecorder(t *testing.T, endpoints map[string]string, resources map[string]string) *recorder {
	t.Helper()
	r := &recorder{endpoints: map[string]*url.URL{}, resources: resources, calls: map[template.Grant]bool{}}
	for target, service := range services {
		u, err := url.Parse(endpoints[service])
		if err != nil {
			t.Fatal(err)
		}
		r.endpoints[target] = u
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		target, _, _ := strings.Cut(p.In.Header.Get("X-Amz-Target"), ".")
		p.SetURL(r.endpoints[target])
	}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		target, operation, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
		if services[target] == "" {
			t.Errorf("a call of an unknown service: %s %s %q", req.Method, req.URL, req.Header.Get("X-Amz-Target"))
			http.Error(w, "unknown service", http.StatusBadRequest)
			return
		}
		r.note(t, services[target], operation, body)
		proxy.ServeHTTP(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// parameters are the parts of requests that name resources.
type parameters struct {
	QueueURL     string `json:"QueueUrl"`
	TableName    string
	IndexName    string
	KeyID        string `json:"KeyId"`
	SecretID     string `json:"SecretId"`
	RequestItems map[string]json.RawMessage
	// TransactItems have one of Put, Delete, Update and ConditionCheck each.
	TransactItems []map[string]json.RawMessage
}

// partitions returns the partition keys that a part of a request names: those of
// items and keys, and that of a query's condition.
func partitions(v any) []string {
	var all []string
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			if text, ok := e.(map[string]any); ok && (name == dynamodb.PK || name == queriedPartition) {
				if s, ok := text["S"].(string); ok {
					all = append(all, s)
					continue
				}
			}
			all = append(all, partitions(e)...)
		}
	case []any:
		for _, e := range v {
			all = append(all, partitions(e)...)
		}
	}
	return all
}

// queriedPartition is what the engine calls the partition in a query's condition.
const queriedPartition = ":pk"

// transactActions are the actions of a transaction's parts.
var transactActions = map[string]string{
	"Put": "dynamodb:PutItem", "Delete": "dynamodb:DeleteItem", "Update": "dynamodb:UpdateItem", "ConditionCheck": "dynamodb:ConditionCheckItem",
}

func (r *recorder) note(t *testing.T, service, operation string, body []byte) {
	var p parameters
	if err := json.Unmarshal(body, &p); err != nil {
		t.Errorf("%s %s: %v", service, operation, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	add := func(action, name, index string, part json.RawMessage) {
		id, ok := r.resources[path.Base(name)]
		if !ok {
			t.Errorf("%s on %q, which is no resource of the stack", action, name)
		}
		if index != "" {
			id += "/index/" + index
		}
		g := template.Grant{Action: action, Resource: id}
		r.calls[g] = true
		if service != "dynamodb" || index != "" {
			return
		}
		var v any
		if err := json.Unmarshal(part, &v); err != nil {
			t.Errorf("%s: %v", action, err)
		}
		k := keyed{g, partitions(v)}
		if len(k.partitions) == 0 {
			t.Errorf("%s names no partition: %.200s", action, part)
		}
		r.keys = append(r.keys, k)
	}
	if operation == "TransactWriteItems" {
		for _, item := range p.TransactItems {
			for kind, part := range item {
				var on struct{ TableName string }
				if err := json.Unmarshal(part, &on); err != nil {
					t.Errorf("%s: %v", operation, err)
				}
				add(transactActions[kind], on.TableName, "", part)
			}
		}
		return
	}
	for _, action := range template.Needed(service, operation) {
		switch {
		case p.QueueURL != "":
			add(action, p.QueueURL, "", nil)
		case p.SecretID != "":
			add(action, p.SecretID, "", nil)
		case p.KeyID != "":
			add(action, p.KeyID, "", nil)
		case p.TableName != "":
			add(action, p.TableName, p.IndexName, body)
		default:
			for name, part := range p.RequestItems {
				add(action, name, "", part)
			}
		}
	}
}

// compare compares the calls with a role. The role must grant every call and no action
// that was not called, except for the excused actions. All queues count as one resource,
// because a run need not use every queue.
func (r *recorder) compare(t *testing.T, tmpl *template.Template, function string, excused map[string]string) {
	t.Helper()
	grants, err := tmpl.Grants(function)
	if err != nil {
		t.Fatal(err)
	}
	kind := func(g template.Grant) template.Grant {
		if strings.HasSuffix(g.Resource, "Queue") {
			g.Resource = "queues"
		}
		return g
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	used := map[template.Grant]bool{}
	for call := range r.calls {
		used[kind(call)] = true
		if !slices.Contains(grants, call) {
			t.Errorf("%s calls %s on %s, which its role does not allow", function, call.Action, call.Resource)
		}
	}
	for _, k := range r.keys {
		denied, err := tmpl.Denied(function, k.Grant, k.partitions...)
		if err != nil {
			t.Fatal(err)
		}
		if denied {
			t.Errorf("%s calls %s on %v, which its role denies", function, k.Action, k.partitions)
		}
	}
	for _, g := range grants {
		if !used[kind(g)] && excused[g.Action] == "" {
			t.Errorf("%s may call %s on %s, which it did not", function, g.Action, g.Resource)
		}
	}
}

// show prints the calls.
func (r *recorder) show(t *testing.T, function string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for c := range r.calls {
		lines = append(lines, c.Action+" on "+c.Resource)
	}
	slices.Sort(lines)
	t.Logf("%s called\n  %s", function, strings.Join(lines, "\n  "))
}
