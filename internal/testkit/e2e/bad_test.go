package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"fedpost/internal/testkit/cost"
)

// badRequests sends what cannot be accepted: each answer says what is wrong and where, and nothing
// is stored.
func badRequests(t *testing.T, w *World) {
	r := w.Remote()
	good := func(change string) string {
		return fmt.Sprintf(`{"activity":%s,"keyId":%q,"recipients":[%q]%s}`, note("bad"), KeyID, r.URL("/inbox"), change)
	}
	with := func(recipients string) string {
		return fmt.Sprintf(`{"activity":%s,"keyId":%q,"recipients":%s}`, note("bad"), KeyID, recipients)
	}
	many := quoted(r.URLs(50_001))
	before, depths := w.Estimated(), w.Depths()
	for _, c := range []struct {
		name, body, kind string
		status           int
		says             string
	}{
		{"malformed", `{"activity":`, "", 400, "JSON"},
		{"no JSON object", `[]`, "", 400, "object"},
		{"empty", ``, "", 400, ""},
		{"wrong type", good(""), "text/plain", 415, "application/json"},
		{"no activity", `{"recipients":["https://a.example/inbox"]}`, "", 400, "/activity"},
		{"no actor", `{"activity":{"type":"Create"},"keyId":"` + KeyID + `","recipients":["https://a.example/inbox"]}`, "", 400, "/activity/actor"},
		{"no key", `{"activity":` + note("bad") + `,"recipients":["https://a.example/inbox"]}`, "", 400, "/keyId"},
		{"unknown key", strings.Replace(good(""), KeyID, "https://nobody.example/#key", 1), "", 400, "/keyId"},
		{"nobody", with(`[]`), "", 400, "/recipients"},
		{"no URL", with(`["inbox"]`), "", 400, "/recipients/0/inbox"},
		{"other scheme", with(`["ftp://a.example/inbox"]`), "", 400, "/recipients/0/inbox"},
		{"user-info", with(`["https://zoe:secret@a.example/inbox"]`), "", 400, "/recipients/0/inbox"},
		{"bad shared inbox", with(`[{"inbox":"https://a.example/i","sharedInbox":"/inbox"}]`), "", 400, "/recipients/0/sharedInbox"},
		{"unknown field", good(`,"recipents":[]`), "", 400, "/recipents"},
		{"no duration", good(`,"delay":"soon"`), "", 400, "/delay"},
		{"too long a delay", good(`,"delay":"P900D"`), "", 400, "/delay"},
		{"no priority", good(`,"priority":"urgent"`), "", 400, "/priority"},
		{"empty deduplication key", good(`,"deduplicationKey":""`), "", 400, "/deduplicationKey"},
		{"too many recipients", with(`[` + many + `]`), "", 400, "50001"},
		{"too large an activity", strings.Replace(good(""), "more", strings.Repeat("m", 300<<10), 1), "", 413, "/activity"},
		{"too large a request", `{"x":"` + strings.Repeat("x", 11<<20) + `"}`, "", 413, ""},
	} {
		status, answer := post(t, w, c.kind, c.body)
		var p struct {
			Type, Title string
			Status      int
		}
		if err := json.Unmarshal(answer, &p); err != nil || p.Status != c.status || p.Title == "" {
			t.Errorf("%s: answer is no problem of status %d: %s", c.name, c.status, answer)
		}
		if status != c.status || !strings.Contains(string(answer), c.says) {
			t.Errorf("%s: %d %.300s; want %d with %q", c.name, status, answer, c.status, c.says)
		}
	}
	unchanged(t, w, before)
	if after := w.Depths(); fmt.Sprint(after) != fmt.Sprint(depths) {
		t.Errorf("queues before: %v, after: %v", depths, after)
	}
	if n := len(r.Posts()); n > 0 {
		t.Errorf("%d POSTs", n)
	}
}

// unchanged checks that nothing was written, sent or tried since before.
func unchanged(t *testing.T, w *World, before cost.Snapshot) {
	t.Helper()
	for op, u := range w.Estimated().Since(before) {
		if u.WriteUnits > 0 || strings.HasPrefix(op.Operation, "Send") {
			t.Errorf("%s %s: %+v", op.Service, op.Operation, u)
		}
	}
}

func post(t *testing.T, w *World, kind, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/v1/activities", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	if kind == "" {
		kind = "application/json"
	}
	req.Header.Set("Content-Type", kind)
	resp, err := w.transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}
