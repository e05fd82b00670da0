package inside

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"
)

func TestWhatWaitsIsCountedOnceInAWhile(t *testing.T) {
	var asked []string
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		if r.URL.RawQuery != "" {
			_, _ = io.WriteString(w, `{"at":"2026-11-24T12:00:00Z","waiting":{"count":7,"atLeast":false}}`)
			return
		}
		_, _ = io.WriteString(w, `{"at":"2026-11-24T12:00:00Z"}`)
	})
	now := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	l := Lately{Every: time.Minute, Now: func() time.Time { return now }}
	for _, wait := range []time.Duration{0, 10 * time.Second, 49 * time.Second, time.Second, time.Second, -time.Hour} {
		now = now.Add(wait)
		s, err := l.Stats(t.Context(), Client(api, ""))
		if err != nil || s.Waiting == nil || s.Waiting.Count != 7 {
			t.Errorf("statistics are %+v, error %v; want 7 waiting", s, err)
		}
	}
	if want := []string{"waiting=true", "", "", "waiting=true", "", "waiting=true"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}
