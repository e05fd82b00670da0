package activitypub_test

import (
	"net/http"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/activitypub"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// TestOfStatusIsTheTable names every status that is not like its neighbours and
// checks all others against the rule for 3xx, 4xx and so on.
func TestOfStatusIsTheTable(t *testing.T) {
	special := map[int]outcome.Class{
		301: outcome.Refused, 308: outcome.Refused,
		400: outcome.Doubtful, 401: outcome.Unverified, 408: outcome.Retry, 421: outcome.Retry, 425: outcome.Retry, 429: outcome.Throttled,
		501: outcome.Refused,
		410: outcome.Refused, // of one actor
	}
	rule := map[int]outcome.Class{0: outcome.Retry, 1: outcome.Retry, 2: outcome.Delivered, 3: outcome.Retry, 4: outcome.Refused, 5: outcome.Retry}
	retry := http.Header{"Retry-After": {"60"}}
	for status := 0; status < 1000; status++ {
		want, ok := special[status]
		if !ok {
			if want, ok = rule[status/100]; !ok {
				want = outcome.Retry
			}
		}
		class, at := activitypub.OfStatus(status, false, nil, noon)
		if class != want {
			t.Errorf("%d: %s, want %s", status, class, want)
		}
		if at.IsZero() != (status != 429) {
			t.Errorf("%d: next try at %v", status, at)
		}

		wantShared := want
		if status == 410 {
			wantShared = outcome.Gone
		}
		if class, _ := activitypub.OfStatus(status, true, nil, noon); class != wantShared {
			t.Errorf("%d of a shared inbox: %s, want %s", status, class, wantShared)
		}

		// Retry-After counts for 429 and 503 only.
		class, at = activitypub.OfStatus(status, false, retry, noon)
		if status == 429 || status == 503 {
			if class != outcome.Throttled || !at.Equal(noon.Add(61*time.Second)) {
				t.Errorf("%d with Retry-After: %s at %v", status, class, at)
			}
		} else if class != want || !at.IsZero() {
			t.Errorf("%d with Retry-After: %s at %v", status, class, at)
		}
	}
	if _, at := activitypub.OfStatus(429, false, http.Header{"Retry-After": {"soon"}}, noon); !at.Equal(noon.Add(outcome.DefaultPause)) {
		t.Errorf("429 with an unreadable Retry-After: %v", at)
	}
}

// TestRateLimitResetCountsWhereThereIsNoRetryAfter: GoToSocial and Mastodon
// say with a 429 only when the limit starts anew.
func TestRateLimitResetCountsWhereThereIsNoRetryAfter(t *testing.T) {
	reset := "2026-11-20T12:05:00.000000Z"
	for _, c := range []struct {
		status            int
		retryAfter, reset string
		class             outcome.Class
		pause             time.Duration
	}{
		{429, "", reset, outcome.Throttled, 5*time.Minute + time.Second},
		{429, "30", reset, outcome.Throttled, 31 * time.Second},
		{429, "0", reset, outcome.Throttled, outcome.DefaultPause},
		{429, "", "soon", outcome.Throttled, outcome.DefaultPause},
		{429, "", "2060-11-20T12:05:00Z", outcome.Throttled, outcome.MaxPause},
		{503, "", reset, outcome.Retry, 0},
		{500, "", reset, outcome.Retry, 0},
		{202, "", reset, outcome.Delivered, 0},
	} {
		h := http.Header{}
		h.Set("Retry-After", c.retryAfter)
		h.Set("X-RateLimit-Reset", c.reset)
		class, at := activitypub.OfStatus(c.status, false, h, noon)
		if class != c.class || at.IsZero() != (c.pause == 0) || (c.pause > 0 && !at.Equal(noon.Add(c.pause))) {
			t.Errorf("%d, Retry-After %q, X-RateLimit-Reset %q: %s until %v", c.status, c.retryAfter, c.reset, class, at)
		}
	}
}
