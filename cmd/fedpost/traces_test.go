package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"fedpost/client"
	"fedpost/internal/app/local"
	"fedpost/internal/testkit/collector"
	"fedpost/internal/testkit/e2e"
)

const (
	callersTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan   = "00f067aa0ba902b7"
	callersParent = "00-" + callersTrace + "-" + callersSpan + "-01"
)

// strangers are servers that record headers of traces in their requests.
type strangers struct {
	mu    sync.Mutex
	told  []string
	posts map[string]int
}

func (s *strangers) note(r *http.Request) (posts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range r.Header {
		if n := strings.ToLower(name); strings.Contains(n, "trace") || n == "baggage" || n == "b3" {
			s.told = append(s.told, r.Method+" "+r.URL.Path+" has "+name)
		}
	}
	if r.Method == http.MethodPost {
		s.posts[r.URL.Path]++
	}
	return s.posts[r.URL.Path]
}

func (s *strangers) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.posts[path]
}

// serve starts a server of strangers, which answers its n-th POST to a path with a status.
func (s *strangers) serve(t terminal, status func(path string, n int) int) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := s.note(r); r.Method == http.MethodPost {
			w.WriteHeader(status(r.URL.Path, n))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// submit submits an activity with headers of the caller's trace, and returns its id.
func (t terminal) submit(body string, header http.Header) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, t.url+"/v1/activities", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var a client.Accepted
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil || res.StatusCode != http.StatusAccepted {
		t.Fatalf("the API answers %s: %v", res.Status, err)
	}
	return a.ID
}

// quick shortens what takes minutes.
func quick(s *settings) {
	tries, first := 3, 100*time.Millisecond
	s.Retry.Tries, s.Retry.First = &tries, &first
	s.Circuit.Streak = 3
	s.Circuit.First, s.Circuit.Step, s.Circuit.Slow, s.Circuit.Ramp = time.Second, time.Second, time.Second, time.Second
	s.every = 200 * time.Millisecond
}

// TestATraceFollowsAnActivityToItsEnd through fan-out, a retry, a parking lot and a retry on
// request. No stranger learns of it.
func TestATraceFollowsAnActivityToItsEnd(tt *testing.T) {
	spans := collector.New(tt)
	tt.Setenv("FEDPOST_API_TOKEN", token)
	tt.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", spans.URL)
	tt.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=one%20two")
	f, err := start(tt.Context(), tt.TempDir(), local.ListenConfig{Listen: "127.0.0.1:0"}, true, quick, slog.New(slog.DiscardHandler))
	if err != nil {
		tt.Fatal(err)
	}
	stop := sync.OnceValue(func() error { return f.stop(nil, 20*time.Second) })
	defer func() { _ = stop() }()
	t := terminal{tt, f.server.URL}

	var mended atomic.Bool
	all := &strangers{posts: map[string]int{}}
	fine := all.serve(t, func(path string, n int) int {
		switch {
		case path == "/stumbles" && n == 1:
			return http.StatusInternalServerError
		case path == "/refuses" && n == 1:
			return http.StatusNotFound
		}
		return http.StatusAccepted
	})
	down := all.serve(t, func(string, int) int {
		if !mended.Load() {
			return http.StatusInternalServerError
		}
		return http.StatusAccepted
	})
	inboxes := []string{fine + "/stumbles", fine + "/refuses", down + "/parked"}
	for i := range 57 {
		inboxes = append(inboxes, fmt.Sprintf("%s/%d", fine, i))
	}
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	t.run([]string{"webhooks", "put", "app", fine + "/hook"})
	id := t.submit(fmt.Sprintf(`{"activity":%s,"keyId":%q,"recipients":["%s"]}`, note, keyID, strings.Join(inboxes, `","`)),
		http.Header{"Traceparent": {callersParent}, "Tracestate": {"vendor=1"}})
	t.until("58 delivered, 1 failed", "status", id)
	e2e.Await(t, 30*time.Second, "the third failure, which parks", func() (bool, string) {
		n := all.count("/parked")
		return n >= 3, fmt.Sprint(n)
	})
	t.run([]string{"retry", id}, "1 retried")
	mended.Store(true)
	t.until(id+": done (60 delivered)", "status", id)
	samples := t.scrape()
	for _, result := range []string{"exported", "failed", "dropped"} {
		if n, ok := samples["fedpost_spans_total{result="+result+"}"]; !ok || result != "exported" && n != 0 {
			tt.Errorf("/metrics count %v spans that are %s (%t)", n, result, ok)
		}
	}
	if err := stop(); err != nil {
		tt.Fatal(err)
	}
	for _, told := range all.told {
		tt.Error(told)
	}
	if all.count("/hook") == 0 {
		tt.Error("no webhook was called, so nothing shows what webhooks are told")
	}
	for _, h := range spans.Headers() {
		if got := h.Get("X-Tenant"); got != "one two" {
			tt.Errorf("the collector got the header %q", got)
		}
	}
	judge(tt, spans.Spans(), fine, down)
}

// judge compares all spans of the test above with what happened.
func judge(t *testing.T, all []*collector.Span, fine, down string) {
	t.Helper()
	byID := map[string]*collector.Span{}
	of := map[trace.Span_SpanKind][]*collector.Span{}
	for _, s := range all {
		byID[string(s.SpanId)] = s
		of[s.Kind] = append(of[s.Kind], s)
		if s.Resource["service.name"] != "fedpost" || s.Resource["service.version"] != release() {
			t.Errorf("%s is of %v", s.Name, s.Resource)
		}
	}
	// The calls: the activity's is in the caller's trace, the one of its retry in its own.
	var called *collector.Span
	for _, s := range of[trace.Span_SPAN_KIND_SERVER] {
		if s.Name == "POST /v1/activities" {
			called = s
		}
	}
	if called == nil {
		t.Fatalf("no span of the call in %d spans", len(all))
	}
	if hex.EncodeToString(called.TraceId) != callersTrace || hex.EncodeToString(called.ParentSpanId) != callersSpan || called.TraceState != "vendor=1" {
		t.Errorf("the call is in trace %x below %x with %q", called.TraceId, called.ParentSpanId, called.TraceState)
	}
	expect(t, called, map[string]any{
		"http.request.method": "POST", "http.route": "/v1/activities", "url.path": "/v1/activities", "url.scheme": "http",
		"http.response.status_code": int64(202),
	})
	sent := of[trace.Span_SPAN_KIND_PRODUCER]
	if len(sent) != 1 {
		t.Fatalf("%d spans of sending, want 1", len(sent))
	}
	if s := sent[0]; s.Name != "send normal" || string(s.ParentSpanId) != string(called.SpanId) || string(s.TraceId) != string(called.TraceId) {
		t.Errorf("%s is below %x in trace %x", s.Name, s.ParentSpanId, s.TraceId)
	}
	expect(t, sent[0], map[string]any{
		"messaging.system": "fedpost", "messaging.operation.name": "send", "messaging.operation.type": "send",
		"messaging.destination.name": "normal", "fedpost.recipients": int64(60),
	})
	// The work on each message is a trace of its own, linked to the send.
	for _, s := range of[trace.Span_SPAN_KIND_CONSUMER] {
		if s.Name != "process normal" || len(s.ParentSpanId) != 0 || string(s.TraceId) == string(called.TraceId) {
			t.Errorf("%s is below %x in trace %x", s.Name, s.ParentSpanId, s.TraceId)
		}
		if len(s.Links) != 1 || string(s.Links[0].SpanId) != string(sent[0].SpanId) || string(s.Links[0].TraceId) != string(called.TraceId) {
			t.Errorf("%s links to %v", s.Name, s.Links)
		}
		if s.Status.GetCode() != trace.Status_STATUS_CODE_UNSET {
			t.Errorf("%s has the status %v", s.Name, s.Status)
		}
		expect(t, s, map[string]any{
			"messaging.system": "fedpost", "messaging.operation.name": "process", "messaging.operation.type": "process",
			"messaging.destination.name": "normal", "fedpost.activity.type": "Create",
		})
	}
	attempts(t, of[trace.Span_SPAN_KIND_CLIENT], byID, fine, down)
}

// attempts compares the spans of attempts with the answers of the inboxes.
func attempts(t *testing.T, all []*collector.Span, byID map[string]*collector.Span, fine, down string) {
	t.Helper()
	states := map[string][]string{}
	trials := 0
	for _, s := range all {
		above := byID[string(s.ParentSpanId)]
		if s.Name != "POST" || above == nil || above.Kind != trace.Span_SPAN_KIND_CONSUMER || string(above.TraceId) != string(s.TraceId) {
			t.Errorf("%s is below %v", s.Name, above)
			continue
		}
		if above.Attribute("fedpost.trial") == true {
			trials++
		}
		inbox, _ := s.Attribute("url.full").(string)
		status, _ := s.Attribute("http.response.status_code").(int64)
		states[inbox] = append(states[inbox], fmt.Sprint(status, " ", s.Attribute("fedpost.state")))
		want := map[string]any{"http.request.method": "POST", "server.address": "127.0.0.1", "error.type": nil}
		code := trace.Status_STATUS_CODE_UNSET
		if status >= 400 {
			want["error.type"], code = fmt.Sprint(status), trace.Status_STATUS_CODE_ERROR
		}
		if n, _ := s.Attribute("fedpost.try").(int64); n > 1 {
			want["http.request.resend_count"] = n - 1
		}
		if s.Status.GetCode() != code || s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("an attempt that got %d has the status %v", status, s.Status)
		}
		expect(t, s, want)
	}
	for inbox, want := range map[string]string{
		fine + "/stumbles": "[500 retrying 202 delivered]",
		fine + "/refuses":  "[404 failed 202 delivered]",
		fine + "/7":        "[202 delivered]",
	} {
		if got := fmt.Sprint(states[inbox]); got != want {
			t.Errorf("%s: attempts %s, want %s", inbox, got, want)
		}
	}
	parked := fmt.Sprint(states[down+"/parked"])
	if !strings.Contains(parked, "500 parked") || !strings.HasSuffix(parked, "202 delivered]") {
		t.Errorf("%s/parked: attempts %s", down, parked)
	}
	if len(states) != 60 {
		t.Errorf("%d inboxes have spans, want 60", len(states))
	}
	if trials == 0 {
		t.Error("no span of the trial after the outage")
	}
}

func expect(t *testing.T, s *collector.Span, want map[string]any) {
	t.Helper()
	for name, v := range want {
		if got := s.Attribute(name); got != v {
			t.Errorf("%s has %s %v, want %v", s.Name, name, got, v)
		}
	}
}

// TestADeadLetterThatIsSentAnewLinksToItsCall, which is all that it has of the trace.
func TestADeadLetterThatIsSentAnewLinksToItsCall(tt *testing.T) {
	spans := collector.New(tt)
	tt.Setenv("FEDPOST_API_TOKEN", token)
	tt.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", spans.URL)
	f, err := start(tt.Context(), tt.TempDir(), local.ListenConfig{Listen: "127.0.0.1:0"}, true, func(s *settings) {
		tries, park := 1, false
		s.Retry.Tries, s.Retry.Park = &tries, &park
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		tt.Fatal(err)
	}
	stop := sync.OnceValue(func() error { return f.stop(nil, 20*time.Second) })
	defer func() { _ = stop() }()
	t := terminal{tt, f.server.URL}
	all := &strangers{posts: map[string]int{}}
	inbox := all.serve(t, func(_ string, n int) int {
		if n == 1 {
			return http.StatusInternalServerError
		}
		return http.StatusAccepted
	}) + "/inbox"
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	id := t.submit(fmt.Sprintf(`{"activity":%s,"keyId":%q,"recipients":[%q]}`, note, keyID, inbox), http.Header{"Traceparent": {callersParent}})
	t.until(id+": done (1 dead)", "status", id)
	t.run([]string{"dead", "retry", "--activity", id}, "1 retried")
	t.until(id+": done (1 delivered)", "status", id)
	if err := stop(); err != nil {
		tt.Fatal(err)
	}
	for _, told := range all.told {
		tt.Error(told)
	}
	links := map[string]string{} // of the spans of messages, by id
	for _, s := range spans.Spans() {
		if s.Kind == trace.Span_SPAN_KIND_CONSUMER && len(s.Links) == 1 {
			links[string(s.SpanId)] = hex.EncodeToString(s.Links[0].TraceId)
		}
	}
	var got []string
	for _, s := range spans.Spans() {
		if s.Kind == trace.Span_SPAN_KIND_CLIENT {
			got = append(got, fmt.Sprint(s.Attribute("fedpost.state"), " ", links[string(s.ParentSpanId)]))
		}
	}
	if want := fmt.Sprint([]string{"dead " + callersTrace, "delivered " + callersTrace}); fmt.Sprint(got) != want {
		tt.Errorf("attempts %s, want %s", got, want)
	}
}
