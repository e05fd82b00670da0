package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestSubmitSendsTheActivityByteForByte(t *testing.T) {
	activity := "{ \"type\" : \"Create\",\n\t\"content\":\"<p>\\u003c & 🦉 \u2028</p>\" }"
	var got string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		var req struct {
			Activity   json.RawMessage `json:"activity"`
			Recipients []string        `json:"recipients"`
		}
		if err := json.Unmarshal(b, &req); err != nil || len(req.Recipients) != 1 {
			t.Errorf("request %s: %v", b, err)
		}
		got = string(req.Activity)
		_, _ = io.WriteString(w, `{"id":"X","status":"queued","recipients":1}`)
	}))
	defer srv.Close()
	c := &Client{Base: srv.URL}
	a, err := c.Submit(context.Background(), Submission{Activity: json.RawMessage(activity), Recipients: []any{"https://a.example/inbox"}})
	if err != nil || a.ID != "X" {
		t.Fatalf("Submit: %+v, %v", a, err)
	}
	if got != activity {
		t.Errorf("activity on the wire:\n%q\nsubmitted:\n%q", got, activity)
	}
}

func TestAnErrorAnswerIsAProblemWithItsFields(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"title":"in progress","status":409,"errors":[{"pointer":"/deduplicationKey","detail":"held"}]}`)
	}))
	defer srv.Close()
	_, err := (&Client{Base: srv.URL}).Activity(context.Background(), "x", "")
	var p *Problem
	if !errors.As(err, &p) {
		t.Fatalf("error %v is no *Problem", err)
	}
	if p.Status != 409 || p.RetryAfter != 7*time.Second || !strings.Contains(p.Error(), "/deduplicationKey: held") {
		t.Errorf("problem %+v: %v", p, p)
	}
}

func TestAnErrorThatIsNotJSONKeepsItsText(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "upstream is down", http.StatusBadGateway)
	}))
	defer srv.Close()
	err := (&Client{Base: srv.URL}).Do(context.Background(), http.MethodGet, "/healthz", nil, nil)
	if err == nil || !strings.Contains(err.Error(), "502") || !strings.Contains(err.Error(), "upstream is down") {
		t.Errorf("error %v", err)
	}
}
