package functions

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"fedpost/internal/engine/queue"
)

// report is the line in which Lambda bills an invocation, in the JSON format, at the
// system log level INFO.
// https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html#platform-report
const report = `{"time":"2026-03-01T10:15:31.000Z","type":"platform.report","record":{"requestId":%q,"metrics":` +
	`{"durationMs":1733.21,"billedDurationMs":1734,"memorySizeMB":512,"maxMemoryUsedMB":61},"status":"success"}}`

// logged makes the functions print lines of each kind that docs/operations.md asks for.
// It returns them with the id of an activity that was delivered.
func logged(t *testing.T, level string) (lines []string, activity string) {
	s := newSite(t, "LOG_LEVEL", level)
	lines = s.period(func() {
		a, err := s.client.Send(t.Context(), submission(s.server.URL+"/inbox", "http://127.0.0.1:1/inbox"))
		if err != nil {
			t.Fatal(err)
		}
		activity = a.ID
		s.work()
		if err := s.aws.engine.Queue(queue.Normal).Send(t.Context(), queue.Message{Body: "{"}); err != nil {
			t.Fatal(err)
		}
		s.work()
	})
	lines = append(lines, s.period(func() {
		s.submit(s.server.URL + "/inbox")
		s.aws.fail("Decrypt", "AccessDeniedException")
		s.stop()
		s.work()
		s.exhaust()
		s.check()
		s.aws.fail("SendMessage", "AccessDeniedException")
		s.submit(s.server.URL + "/inbox")
		s.aws.fail("Query", "AccessDeniedException")
		s.check()
	})...)
	return lines, activity
}

// TestEachLineNamesItsInvocation: all lines are JSON of one level and time, with the
// request id that Lambda's own lines have.
func TestEachLineNamesItsInvocation(t *testing.T) {
	t.Parallel()
	lines, _ := logged(t, "DEBUG")
	ids := map[string]bool{}
	for _, line := range lines {
		var l struct{ Level, Message, Timestamp, RequestID string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if l.Level == "" || l.Message == "" || l.Timestamp == "" || l.RequestID == "" {
			t.Errorf("a line without level, message, time or request id: %s", line)
		}
		ids[l.RequestID] = true
	}
	if len(ids) < 6 {
		t.Errorf("%d request ids in %d lines", len(ids), len(lines))
	}
}

// TestMetricsArePrintedAtEachLevel: and of all other lines those of the level and above.
func TestMetricsArePrintedAtEachLevel(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{"INFO": "delivered", "WARN": "attempt failed", "ERROR": "a message was moved to the dead letters"} {
		lines, _ := logged(t, level)
		text := strings.Join(lines, "\n")
		if !strings.Contains(text, `"message":"`+want+`"`) {
			t.Errorf("at %s nothing says %q:\n%s", level, want, text)
		}
		for _, metric := range []string{"Delivered", "CameBack", "Faults", "Exhausted"} {
			if !strings.Contains(text, `"`+metric+`":`) {
				t.Errorf("at %s the metric %s is not printed", level, metric)
			}
		}
		for _, line := range lines {
			var l struct {
				Level string
				EMF   any `json:"_aws"`
			}
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			below := map[string]string{"INFO": "DEBUG", "WARN": "DEBUG INFO", "ERROR": "DEBUG INFO WARN"}[level]
			if l.EMF == nil && strings.Contains(below, l.Level) {
				t.Errorf("at %s there is a line of %s: %s", level, l.Level, line)
			}
		}
	}
}

// TestTheQueriesOfTheOperatorsGuideFindSomething runs each query of docs/operations.md on
// lines that the functions have printed, and Lambda's report.
func TestTheQueriesOfTheOperatorsGuideFindSomething(t *testing.T) {
	t.Parallel()
	lines, activity := logged(t, "INFO")
	ids := regexp.MustCompile(`"message":"delivered".*"requestId":"([^"]+)"`).FindStringSubmatch(strings.Join(lines, "\n"))
	if ids == nil {
		t.Fatalf("nothing was delivered:\n%s", strings.Join(lines, "\n"))
	}
	lines = append(lines, fmt.Sprintf(report, ids[1]))
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	results := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```insights\n# (.*?)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		query := strings.NewReplacer("social.example", "127.0.0.1:1", "ACTIVITY", activity, "REQUEST", ids[1]).Replace(m[2])
		rows, err := insights(query, lines)
		if err != nil || len(rows) == 0 {
			t.Errorf("%s: %d rows, %v, of\n%s", m[1], len(rows), err, strings.Join(lines, "\n"))
		}
		results[m[1]] = fmt.Sprint(rows)
	}
	if len(results) < 8 {
		t.Errorf("docs/operations.md has %d queries", len(results))
	}
	for name, want := range map[string]string{
		"deliver: calls to AWS that fail":                       "map[lines:1 operation:Decrypt service:KMS]",
		"deliver: the servers that fail most":                   "map[failures:1 host:127.0.0.1:1 reason:refused status:0]",
		"deliver: one server":                                   "connection refused",
		"deliver: one activity":                                 "delivered",
		"enqueue: requests that failed through a fault of ours": "AccessDeniedException",
		"healthcheck: servers that are given up":                "a server is exhausted",
		"any function: invocations that failed":                 "AccessDeniedException",
		"any function: one invocation":                          "platform.report",
	} {
		if !strings.Contains(results[name], want) {
			t.Errorf("%s: %q is not in %s", name, want, results[name])
		}
	}
}
