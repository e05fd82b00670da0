package page_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"fedpost/client"
	"fedpost/internal/api/problem"
)

func TestTheOverviewSaysFirstWhatIsWrong(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	p := v.get("/")
	v.says(p, 200, "<title>7 problems", "The oldest message in the queue normal has waited for 39 min", "1 server has been down for the whole give-up time",
		"15 servers are down", "Webhooks disabled after 5 days of failures: 1.", "Failing webhooks: 1.", "31 deliveries are dead", "3 calls today were accepted without a check", "mastodon.down.example", "due now", "1\u202f203\u202f380")
	if act, look := strings.Index(p.text, "Act:"), strings.Index(p.text, "Look:"); act < 0 || look < act {
		t.Errorf("what needs somebody to act does not come first: %d, %d", act, look)
	}
	calm := serve(t, well(t), true)
	v = calm.signedIn()
	v.says(v.get("/"), 200, "<title>All is well", "No queue is stuck")
}

func TestTheOverviewSaysWhatIsInTheOutbox(t *testing.T) {
	s := serve(t, well(t), true)
	v := s.signedIn()
	if p := v.get("/"); strings.Contains(p.text, "outbox") {
		t.Error("there is an outbox without PostgreSQL")
	}
	stats := s.api.answers["/v1/stats"].(client.Stats)
	stats.Outbox = &client.OutboxDepth{Waiting: 7}
	s.api.set("/v1/stats", stats)
	v.says(v.get("/"), 200, "<title>All is well", "<dt>In the outbox</dt><dd>7</dd>")
	stats.Outbox = &client.OutboxDepth{Waiting: 7, Refused: 2, Oldest: 400}
	s.api.set("/v1/stats", stats)
	v.says(v.get("/"), 200, "<title>2 problems", "Act:</strong> Refused rows of the outbox: 2.", "Look:</strong> The oldest row of the outbox has waited for 6 min")
	stats.Outbox.Oldest = 2000
	v.says(v.get("/"), 200, "Act:</strong> The oldest row of the outbox has waited for 33 min")
}

func TestMostDeliveriesFailing(t *testing.T) {
	s := serve(t, well(t), true)
	h := s.api.answers["/v1/stats/history?period=hour"].(client.History)
	h.Counts = map[string][]int{"delivered": wave(60, 10, 0), "retrying": wave(60, 60, 0)}
	s.api.set("/v1/stats/history?period=hour", h)
	v := s.signedIn()
	v.says(v.get("/"), 200, "of the last hour&#39;s deliveries failed or wait", "network, clock or signing key")
}

// TestChartsShowTheNumbersOfTheHistory, and where nothing is known.
func TestChartsShowTheNumbersOfTheHistory(t *testing.T) {
	s := serve(t, well(t), true)
	h := s.api.answers["/v1/stats/history?period=hour"].(client.History)
	h.Counts = map[string][]int{"delivered": make([]int, 60), "dead": make([]int, 60)}
	h.Counts["delivered"][58], h.Counts["delivered"][59], h.Counts["dead"][59] = 1000, 234, 1
	s.api.set("/v1/stats/history?period=hour", h)
	v := s.signedIn()
	p := v.get("/")
	v.says(p, 200, "Delivered: <strong>1\u202f234</strong>", "<title>03:06: 1\u202f000 delivered</title>", "<title>03:07: 1 dead</title>",
		`<tr><th scope="row">03:07</th><td>234</td></tr>`, `class="unknown" x="0" y="0" width="784"`)
	// One dead letter among thousands is seen: its bar has a height.
	if m := regexp.MustCompile(`<rect class="dead"[^>]*height="(\d+)"`).FindStringSubmatch(p.text); m == nil || m[1] == "0" {
		t.Errorf("the bar of the dead is %q", m)
	}
}

func TestOnAWSThePageSaysWhereTheHistoryIs(t *testing.T) {
	s := serve(t, busy(t), true)
	none := problem.Typed(http.StatusNotFound, "no-history", "No history", "On AWS, CloudWatch has it.")
	s.api.set("/v1/stats/history?period=hour", none)
	s.api.set("/v1/stats/history?period=day", none)
	v := s.signedIn()
	p := v.get("/")
	v.says(p, 200, "On AWS, CloudWatch has it.", "mastodon.down.example")
	if strings.Contains(p.text, "<svg") {
		t.Error("there are charts without numbers")
	}
}

func TestAnOutageIsSaidInTheAPIsWords(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	v.says(v.get("/servers/mastodon.down.example"), 200)
	s.api.set("/v1/servers/mastodon.down.example", http.StatusServiceUnavailable)
	v.says(v.get("/servers/mastodon.down.example"), 503, "The records cannot be reached. Try again.", `role="alert"`)
	v.says(v.get("/activities/none"), 404, "There is no such thing.")
}

// TestAnOutageOfTheTableIsTheFirstThingToBeSaid, with all that is known without the table.
func TestAnOutageOfTheTableIsTheFirstThingToBeSaid(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	for _, path := range []string{"/v1/stats", "/v1/dead-letters", "/v1/servers/mastodon.down.example"} {
		was := s.api.answers[path]
		s.api.set(path, http.StatusServiceUnavailable)
		p := v.get("/")
		v.says(p, 200, "<title>1 problem", "Act:</strong> fedpost cannot read its table or a queue", "The records cannot be reached. Try again.", "Delivered: <strong>78\u202f612</strong>")
		if strings.Contains(p.text, "Delivered today") || strings.Contains(p.text, "No queue is stuck") {
			t.Errorf("without %s numbers are shown that nobody knows", path)
		}
		s.api.set(path, was)
	}
	v.says(v.get("/"), 200, "Delivered today")
	s.api.set("/healthz", http.StatusServiceUnavailable)
	v.says(v.get("/"), 200, "Act:</strong> The records cannot be reached", "Delivered today") // it can be read, and not written
	s.api.set("/v1/stats", http.StatusServiceUnavailable)
	v.says(v.get("/"), 200, "<title>1 problem", "Act:</strong> The records cannot be reached")
}

// TestEveryPageSaysThatNothingCanBeWritten: otherwise a page would look like that of a working
// fedpost, with retries that are due now.
func TestEveryPageSaysThatNothingCanBeWritten(t *testing.T) {
	s := serve(t, busy(t), true)
	v := s.signedIn()
	const says = "fedpost cannot work.</strong> The records cannot be reached"
	for _, path := range []string{"/servers", "/servers/mastodon.down.example", "/servers/mastodon.down.example/block", "/dead", "/activities", "/events", "/keys", "/keys/new", "/webhooks", "/activities/none"} {
		if p := v.get(path); strings.Contains(p.text, says) {
			t.Errorf("%s says it of a fedpost that works", path)
		}
		s.api.set("/healthz", http.StatusServiceUnavailable)
		if p := v.get(path); strings.Count(p.text, says) != 1 {
			t.Errorf("%s does not say it", path)
		}
		s.api.set("/healthz", client.Health{Status: "ok"})
	}
	s.api.set("/healthz", http.StatusServiceUnavailable)
	if p := v.get("/"); strings.Contains(p.text, says) {
		t.Error("the overview says it twice")
	}
}
