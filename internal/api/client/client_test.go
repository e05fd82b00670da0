package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"fedpost/internal/api/contract"
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
	a, err := c.Submit(context.Background(), Submission{Activity: json.RawMessage(activity), Recipients: To("https://a.example/inbox")})
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

// TestWhatADetailTellsIsNotToldTwice: the API's detail begins with the first
// fault.
func TestWhatADetailTellsIsNotToldTwice(t *testing.T) {
	p := Problem{Status: 400, Title: "Invalid request", Detail: "The first: /type is odd.", Errors: []contract.FieldError{{Pointer: "#/type", Detail: "is odd"}, {Pointer: "#/id", Detail: "is missing"}}}
	if want := "400 Invalid request: The first: /type is odd.; #/id: is missing"; p.Error() != want {
		t.Errorf("error %q, want %q", p.Error(), want)
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

func TestAListFollowsItsPagesUpToALimit(t *testing.T) {
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		pages := map[string]string{
			"":  `{"things":[1,2],"nextCursor":"b"}`,
			"b": `{"things":[],"nextCursor":"c"}`,
			"c": `{"things":[3,4]}`,
		}
		_, _ = io.WriteString(w, pages[r.URL.Query().Get("cursor")])
	}))
	defer srv.Close()
	c := &Client{Base: srv.URL}
	for limit, want := range map[int]int{2: 2, 3: 4, 100: 4} {
		asked = nil
		all, err := c.List(context.Background(), "/v1/things", url.Values{"kind": {"x"}}, "things", limit, 2)
		if err != nil || len(all) != want {
			t.Errorf("limit %d: %s, %v", limit, all, err)
		}
		if asked[0] != "kind=x&limit=2" {
			t.Errorf("asked %q", asked)
		}
	}
	if _, err := c.List(context.Background(), "/v1/things", url.Values{}, "others", 5, 2); err == nil || !strings.Contains(err.Error(), "others") {
		t.Errorf("a list that is not there: %v", err)
	}
}

func TestASelectionIsWrittenBothWays(t *testing.T) {
	s := Selection{Host: "a.example", Since: time.Date(2026, 11, 21, 9, 0, 0, 0, time.FixedZone("CET", 3600)), Limit: 5}
	if got := s.Query().Encode(); got != "host=a.example&since=2026-11-21T08%3A00%3A00Z" {
		t.Errorf("query %q", got)
	}
	var got string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = string(b)
		_, _ = io.WriteString(w, `{"retried":3,"more":true}`)
	}))
	defer srv.Close()
	r, err := (&Client{Base: srv.URL}).RetryDeadLetters(context.Background(), s)
	if err != nil || r != (Retried{Retried: 3, More: true}) || strings.TrimSpace(got) != `{"host":"a.example","since":"2026-11-21T09:00:00+01:00","limit":5}` {
		t.Errorf("sent %s, got %+v, %v", got, r, err)
	}
}
