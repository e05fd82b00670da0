package problem_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/api/problem"
)

func TestWriteAnswersAsRFC9457Says(t *testing.T) {
	p := problem.Typed(http.StatusConflict, "in-progress", "In progress", "Try again.").After(1200 * time.Millisecond)
	p.Errors = []client.FieldError{{Pointer: "#/a", Detail: "is wrong"}}
	w := httptest.NewRecorder()
	if err := p.Write(w); err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusConflict || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("answered %d %s", w.Code, w.Header().Get("Content-Type"))
	}
	if got := w.Header().Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After is %q, want it rounded up to 2", got)
	}
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got["type"] != "urn:fedpost:problem:in-progress" || got["status"] != float64(409) || got["errors"] == nil {
		t.Errorf("body is %s", w.Body)
	}
}

func TestFromHidesUnknownErrorsAndFindsProblems(t *testing.T) {
	secret := errors.New("table fedpost-prod at 10.0.0.7")
	w := httptest.NewRecorder()
	p := problem.Of(secret)
	if err := p.Write(w); err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "10.0.0.7") {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
	if !errors.Is(p, secret) {
		t.Error("the cause is lost to the log")
	}
	want := problem.New(http.StatusNotFound, "gone")
	if got := problem.Of(fmt.Errorf("wrapped: %w", want)); got != want {
		t.Errorf("From returned %v", got)
	}
}
