package metrics

import (
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/ledger/stats"
)

var quiet = slog.New(slog.DiscardHandler)

func tally() *stats.Tally { return stats.NewTally(nil, "p", time.Now) }

// answers is an API that answers every request with a text.
func answers(status int, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			status, text = http.StatusUnauthorized, `{"title":"Unauthorized","status":401,"detail":"Send the token."}`
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
}

func scrape(t *testing.T, m *Meter, api http.Handler, token string) (int, string) {
	t.Helper()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	m.Handler(api, quiet).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestAttemptsAreCountedByProtocolAndOutcome(t *testing.T) {
	m := New(tally())
	a := activity.Activity{Protocol: activity.Sipher}
	m.Attempted(a, outcome.Outcome{Class: outcome.Refused, Took: 300 * time.Millisecond}, activity.Failed)
	m.Attempted(a, outcome.Outcome{Class: outcome.Retry, Try: outcome.Unsent}, activity.Retrying)
	m.Attempted(a, outcome.Outcome{Class: outcome.Retry, Try: outcome.Waiting}, activity.Parked)
	m.Counted("CameBack", 2)
	m.Counted("Parked", 5) // the tally's
	_, got := scrape(t, m, answers(200, `{}`), "secret")
	for _, want := range []string{
		`fedpost_attempts_total{outcome="refused",protocol="sipher"} 1`,
		`fedpost_attempt_duration_seconds_bucket{protocol="sipher",le="0.25"} 0`,
		`fedpost_attempt_duration_seconds_bucket{protocol="sipher",le="0.5"} 1`,
		`fedpost_work_total{kind="came_back"} 2`,
		`fedpost_recipients_total{state="delivered"} 0`,
		`fedpost_deduplication_hits_total 0`,
		`go_memstats_alloc_bytes `,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, none := range []string{`outcome="retry"`, `kind="parked"`} {
		if strings.Contains(got, none) {
			t.Errorf("%s is counted", none)
		}
	}
}

// TestAnOutageOfTheTableLeavesTheCounters: the counters show what is going on meanwhile.
func TestAnOutageOfTheTableLeavesTheCounters(t *testing.T) {
	counted := tally()
	counted.Add("delivered", 3)
	m := New(counted)
	status, got := scrape(t, m, answers(503, `{"title":"Service Unavailable","status":503}`), "secret")
	if status != 200 || !strings.Contains(got, "\nfedpost_stats_up 0\n") || !strings.Contains(got, "\nfedpost_writable 0\n") || !strings.Contains(got, `state="delivered"} 3`) || strings.Contains(got, "fedpost_servers{") {
		t.Errorf("without statistics the scrape is answered %d, want 200 with what the process counts:\n%s", status, got)
	}
	status, got = scrape(t, m, answers(200, `{"at":"2026-11-24T12:00:00Z","queues":{"low":{"visible":7,"oldestSeconds":40},"high":{"inFlight":2}},"servers":{"unhealthy":4},"waiting":{"count":12,"atLeast":false},"webhooks":{"failing":1}}`), "secret")
	for _, want := range []string{
		"\nfedpost_stats_up 1\n", "\nfedpost_writable 1\n", `fedpost_queue_messages{queue="low",state="visible"} 7`, `fedpost_queue_oldest_seconds{queue="low"} 40`,
		`fedpost_queue_messages{queue="high",state="in_flight"} 2`, `fedpost_servers{phase="unhealthy"} 4`, `fedpost_servers{phase="exhausted"} 0`, "\nfedpost_waiting_deliveries 12\n", `fedpost_webhooks{state="failing"} 1`, `fedpost_webhooks{state="disabled"} 0`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%d, without %s", status, want)
		}
	}
	if strings.Contains(got, `fedpost_queue_oldest_seconds{queue="high"}`) {
		t.Error("an age that is not known is shown")
	}
}

// TestEveryCounterOfTheCodeIsShownFromTheStart: an alert on the first dead letter needs
// the zero before it.
func TestEveryCounterOfTheCodeIsShownFromTheStart(t *testing.T) {
	_, got := scrape(t, New(tally()), answers(200, `{}`), "secret")
	counted, found := regexp.MustCompile(`\.Counted\("(\w+)", `), 0
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range counted.FindAllStringSubmatch(string(text), -1) {
			found++
			if want := `fedpost_work_total{kind="` + snake(m[1]) + `"} 0`; !stats.Tallied(m[1]) && !strings.Contains(got, want) {
				t.Errorf("%s counts %s: %s is not shown", path, m[1], want)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 6 {
		t.Errorf("only %d counters were found in the code", found)
	}
}

func TestMetricsAreRefusedAsStatsAre(t *testing.T) {
	status, got := scrape(t, New(tally()), answers(200, `{}`), "another")
	if status != 401 || !strings.Contains(got, "Send the token.") || strings.Contains(got, "go_") {
		t.Errorf("with another token the scrape is answered %d, want 401 without a metric:\n%s", status, got)
	}
}
