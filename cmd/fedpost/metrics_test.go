package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"fedpost/client"
	"fedpost/internal/testkit/collector"
	"fedpost/internal/testkit/e2e"
)

// scrape reads /metrics as Prometheus does: each sample by its name and labels.
func (t terminal) scrape() map[string]float64 {
	t.Helper()
	status, body := t.get("/metrics", token)
	if status != http.StatusOK {
		t.Fatalf("GET /metrics is answered %d, want 200: %s", status, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			at := name + "{" + strings.Join(labels, ",") + "}"
			all[at] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// get makes a request with a token, or without one.
func (t terminal) get(path, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, t.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// mixed causes everything that is counted: deliveries that get through, are refused and die,
// duplicates, a server that is blocked.
func (t terminal) mixed() {
	t.Helper()
	inboxes := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/gone":
			w.WriteHeader(http.StatusNotFound)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(inboxes.Close)
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	t.run([]string{"servers", "block", "bad.example"})
	var ids []string
	for i := range 3 {
		send := []string{
			"send", t.file("note.json", note), "--key", keyID, "--deduplication-key", fmt.Sprint(i),
			"--to", inboxes.URL + "/ok", "--to", inboxes.URL + "/gone", "--to", inboxes.URL + "/broken", "--to", "https://bad.example/inbox",
		}
		id, _, _ := strings.Cut(t.run(send), " ")
		ids = append(ids, id)
		t.run(send, "duplicate")
	}
	for _, id := range ids {
		t.until(id+": done (2 failed, 1 dead, 1 delivered)", "status", id)
	}
}

// TestMetricsStatsAndHistoryAgree after a mixed run: there is one source for the numbers.
func TestMetricsStatsAndHistoryAgree(tt *testing.T) {
	tt.Parallel()
	t := onServer(tt)
	t.mixed()
	metrics := t.scrape()
	var s client.Stats
	if err := json.Unmarshal([]byte(t.run([]string{"stats", "--json"})), &s); err != nil {
		t.Fatal(err)
	}
	var h client.History
	_, body := t.get("/v1/stats/history", token)
	if err := json.Unmarshal([]byte(body), &h); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"accepted": 12, "attempts": 9, "delivered": 3, "failed": 6, "dead": 3, "duplicates": 3} {
		if s.Counts[name] != want {
			t.Errorf("stats count %d %s, want %d", s.Counts[name], name, want)
		}
	}
	same := func(metric string, want int) {
		t.Helper()
		if got, ok := metrics[metric]; !ok || int(got) != want {
			t.Errorf("%s is %v (%t), stats have %d", metric, got, ok, want)
		}
	}
	for name, n := range s.Counts {
		sum := 0
		for _, m := range h.Counts[name] {
			sum += m
		}
		if sum != n {
			t.Errorf("the history of %s adds up to %d, stats have %d", name, sum, n)
		}
		switch name {
		case "attempts":
			same("fedpost_attempt_duration_seconds{protocol=activitypub}", n)
			made := 0
			for metric, value := range metrics {
				if strings.HasPrefix(metric, "fedpost_attempts_total{") {
					made += int(value)
				}
			}
			if made != n {
				t.Errorf("attempts by protocol and outcome add up to %d, stats have %d", made, n)
			}
		case "duplicates":
			same("fedpost_deduplication_hits_total{}", n)
		case "deduplicationFallbacks":
			same("fedpost_deduplication_fallbacks_total{}", n)
		case "unrecorded":
			same("fedpost_unrecorded_activities_total{}", n)
		default:
			same("fedpost_recipients_total{state="+name+"}", n)
		}
	}
	for name, q := range s.Queues {
		same(fmt.Sprintf("fedpost_queue_messages{queue=%s,state=visible}", name), q.Visible)
	}
	// The page shows the same numbers.
	b := t.browser()
	b.signIn(token)
	shown := b.see("/")
	for says, name := range map[string]string{"recipients accepted": "accepted", "requests made": "attempts", "delivered": "delivered", "refused for good": "failed", "given up": "dead", "calls that repeated a key": "duplicates"} {
		if want := fmt.Sprintf("<dt>%s</dt><dd>%d</dd>", says, s.Counts[name]); !strings.Contains(shown, want) {
			t.Errorf("the page does not show %s", want)
		}
	}
	if want := fmt.Sprintf("Delivered: <strong>%d</strong>", s.Counts["delivered"]); strings.Count(shown, want) != 2 {
		t.Errorf("the charts do not show %s", want)
	}
	same("fedpost_servers{phase=blocked}", s.Servers["blocked"])
	same("fedpost_stats_up{}", 1)
	same("fedpost_waiting_deliveries{}", 0)
	same("fedpost_attempts_total{outcome=refused,protocol=activitypub}", 3)
	same("fedpost_work_total{kind=dead}", 3)
	if metrics["go_goroutines{}"] == 0 {
		t.Error("nothing is said about Go's runtime")
	}
}

// TestEventsAreCountedByType, as the feed has them. Events are appended after recipients are
// recorded, and counted after that, so both are awaited.
func TestEventsAreCountedByType(tt *testing.T) {
	tt.Parallel()
	t := onServer(tt)
	t.mixed()
	want := map[string]int{"recipient.gone": 3, "recipient.failed": 3, "recipient.dead": 3, "webhook.disabled": 0}
	e2e.Await(t, 30*time.Second, "metrics and feed to have each event", func() (bool, string) {
		var feed client.Events
		if _, body := t.get("/v1/events?limit=100", token); json.Unmarshal([]byte(body), &feed) != nil {
			t.Fatalf("events: %s", body)
		}
		told := map[string]int{}
		for _, e := range feed.Events {
			told[string(e.Type)]++
		}
		metrics := t.scrape()
		differs := ""
		for kind, n := range want {
			if counted, ok := metrics["fedpost_events_total{type="+kind+"}"]; !ok || int(counted) != n || told[kind] != n {
				differs += fmt.Sprintf("%s: %v counted (%t), %d told, want %d; ", kind, counted, ok, told[kind], n)
			}
		}
		return differs == "", differs
	})
}

func TestMetricsAreForThoseWhoMayRead(tt *testing.T) {
	tt.Parallel()
	t := onServer(tt)
	for token, says := range map[string]string{"": "Send the API token", "another token altogether": "The token is invalid"} {
		if status, body := t.get("/metrics", token); status != http.StatusUnauthorized || !strings.Contains(body, says) || strings.Contains(body, "fedpost_") {
			t.Errorf("with token %q: %d %s", token, status, body)
		}
	}
}

func TestMetricsAreNamedAsPrometheusRecommends(tt *testing.T) {
	tt.Parallel()
	t := onServer(tt)
	t.mixed()
	_, body := t.get("/metrics", token)
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestTheDashboardAndTheAlertsNameMetricsThatExist: a wrong name would leave a panel empty or an
// alert silent.
func TestTheDashboardAndTheAlertsNameMetricsThatExist(tt *testing.T) {
	tt.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.New(tt).URL)
	t := onServer(tt)
	t.mixed()
	_, body := t.get("/metrics", token)
	for _, file := range []string{"dashboard.json", "alerts.yaml"} {
		text, err := os.ReadFile("../../deploy/grafana/" + file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\b(?:fedpost|go|process)_[a-z_]+`).FindAllString(string(text), -1)
		if len(names) < 8 {
			t.Errorf("%s names only %q", file, names)
		}
		for _, name := range names {
			if strings.HasPrefix(name, "fedpost_outbox_") {
				continue // on PostgreSQL: TestAPostAndItsDeliveryAreOneTransactionOnPostgreSQL looks for them
			}
			if !strings.Contains(body, "\n"+name+"{") && !strings.Contains(body, "\n"+name+" ") {
				t.Errorf("%s names %s, which fedpost does not have", file, name)
			}
		}
		if file == "dashboard.json" && !json.Valid(text) {
			t.Error("the dashboard is not JSON")
		}
	}
}

// TestTheDashboardAndTheDocsHaveEveryMetric: a metric that neither shows would be useless.
func TestTheDashboardAndTheDocsHaveEveryMetric(tt *testing.T) {
	tt.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.New(tt).URL)
	t := onServer(tt)
	t.mixed()
	_, body := t.get("/metrics", token)
	served := regexp.MustCompile(`(?m)^# TYPE (fedpost_\w+) `).FindAllStringSubmatch(body, -1)
	if len(served) < 15 {
		t.Errorf("only %d metrics are served", len(served))
	}
	served = append(served, []string{"", "fedpost_outbox_rows"}, []string{"", "fedpost_outbox_oldest_seconds"}) // on PostgreSQL
	for file, how := range map[string]string{"../../deploy/grafana/dashboard.json": `\b%s(?:_bucket)?\{`, "../../docs/operations.md": "(?m)^\\| `%s`"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, metric := range served {
			if !regexp.MustCompile(fmt.Sprintf(how, metric[1])).Match(text) {
				t.Errorf("%s lacks %s", file, metric[1])
			}
		}
	}
}
