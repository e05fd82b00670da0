package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/app/progress"
)

// TestACancelOfManySaysHowFarBackItIs, and how much of the time is left.
func TestACancelOfManySaysHowFarBackItIs(t *testing.T) {
	newest := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	var at steps
	var said []string
	api, err := client.New("http://fedpost.test", client.HTTPClient(&http.Client{Transport: roundTrip(func(*http.Request) (int, string) {
		said = append(said, at.String())
		answer := fmt.Sprintf(`{"cancelled":5,"over":0,"reached":"2026-11-24T%02d:00:00Z","nextCursor":"c"}`, max(0, 12-6*len(said)))
		if len(said) == 3 {
			answer = `{"cancelled":1,"over":0,"reached":"2026-11-23T12:00:00Z"}`
		}
		return http.StatusOK, answer
	})}))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := cancelMany(progress.With(t.Context(), at.begin), api, client.ActivitySelection{}, newest, newest.Add(-24*time.Hour))
	if err != nil || sum.Cancelled != 11 {
		t.Errorf("%+v, %v; want 11 cancelled", sum, err)
	}
	for i, want := range []string{"", "5 cancelled, back to 2026-11-24 06:00:00Z, 25 %", "10 cancelled, back to 2026-11-24 00:00:00Z, 50 %"} {
		if !strings.HasPrefix(said[i], want) {
			t.Errorf("before call %d it says %q, want %q", i+1, said[i], want)
		}
	}
}
