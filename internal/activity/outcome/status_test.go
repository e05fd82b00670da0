package outcome

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// TestOfStatusIsTheTable names every status that is not like its neighbours and
// checks all others against the rule of their hundred.
func TestOfStatusIsTheTable(t *testing.T) {
	special := map[int]Class{
		301: Refused, 308: Refused,
		400: Doubtful, 401: Unverified, 408: Retry, 425: Retry, 429: Throttled,
		501: Refused,
		410: Refused, // of one actor
	}
	rule := map[int]Class{0: Retry, 1: Retry, 2: Delivered, 3: Retry, 4: Refused, 5: Retry}
	for status := 0; status < 1000; status++ {
		want, ok := special[status]
		if !ok {
			if want, ok = rule[status/100]; !ok {
				want = Retry
			}
		}
		class, at := OfStatus(status, false, "", noon)
		if class != want {
			t.Errorf("%d: %s, want %s", status, class, want)
		}
		if at.IsZero() != (status != 429) {
			t.Errorf("%d: next try at %v", status, at)
		}

		wantShared := want
		if status == 410 {
			wantShared = Gone
		}
		if class, _ := OfStatus(status, true, "", noon); class != wantShared {
			t.Errorf("%d of a shared inbox: %s, want %s", status, class, wantShared)
		}

		// Retry-After counts for 429 and 503 only.
		class, at = OfStatus(status, false, "60", noon)
		if status == 429 || status == 503 {
			if class != Throttled || !at.Equal(noon.Add(time.Minute)) {
				t.Errorf("%d with Retry-After: %s at %v", status, class, at)
			}
		} else if class != want || !at.IsZero() {
			t.Errorf("%d with Retry-After: %s at %v", status, class, at)
		}
	}
	if _, at := OfStatus(429, false, "soon", noon); !at.Equal(noon.Add(DefaultPause)) {
		t.Errorf("429 with an unreadable Retry-After: %v", at)
	}
}

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		value string
		pause time.Duration // 0: nothing asked
	}{
		{"120", 2 * time.Minute},
		{" 1 ", time.Second},
		{"000007", 7 * time.Second},
		{"43199", MaxPause - time.Second},
		{"43200", MaxPause},
		{"99999999", MaxPause},
		{"9223372036854775807", MaxPause},
		{"99999999999999999999999999", MaxPause},
		{"Fri, 20 Nov 2026 12:05:00 GMT", 5 * time.Minute},  // IMF-fixdate
		{"Friday, 20-Nov-26 12:05:00 GMT", 5 * time.Minute}, // RFC 850
		{"Fri Nov 20 12:05:00 2026", 5 * time.Minute},       // asctime
		{"Sat, 20 Nov 2060 12:00:00 GMT", MaxPause},         // 34 years
		{"Thu, 01 Jan 9999 00:00:00 GMT", MaxPause},         // beyond a Duration
		{"Fri, 20 Nov 2026 12:00:00 GMT", 0},                // now
		{"Fri, 20 Nov 2026 11:00:00 GMT", 0},                // past
		{"Sun, 06 Nov 1994 08:49:37 GMT", 0},                // long past
		{"", 0}, {"0", 0}, {"-5", 0}, {"+5", 0}, {"1.5", 0}, {"5s", 0}, {"٣", 0}, {"soon", 0},
		{"2026-11-20T12:05:00Z", 0},
	} {
		at, ok := RetryAfter(c.value, noon)
		if ok != (c.pause != 0) || (ok && !at.Equal(noon.Add(c.pause))) {
			t.Errorf("%q: %v %v, want a pause of %v", c.value, at, ok, c.pause)
		}
	}
}

// FuzzRetryAfter: whatever a host says, the pause is in (0, MaxPause], and what
// a standard writer wrote is read back.
func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "Fri, 20 Nov 2026 12:05:00 GMT", "Friday, 20-Nov-26 12:05:00 GMT", "Fri Nov 20 12:05:00 2026", "-1", "99999999999999999999"} {
		f.Add(s, int64(3600))
	}
	f.Fuzz(func(t *testing.T, value string, seconds int64) {
		at, ok := RetryAfter(value, noon)
		if pause := at.Sub(noon); ok && (pause <= 0 || pause > MaxPause) {
			t.Errorf("%q: pause of %v", value, pause)
		}
		if !ok && !at.IsZero() {
			t.Errorf("%q: refused with %v", value, at)
		}
		if seconds <= 0 || seconds > 1<<31 {
			return
		}
		want := noon.Add(min(time.Duration(seconds)*time.Second, MaxPause))
		for _, s := range []string{
			strconv.FormatInt(seconds, 10),
			noon.Add(time.Duration(seconds) * time.Second).Format(http.TimeFormat),
		} {
			if at, ok := RetryAfter(s, noon); !ok || !at.Equal(want) {
				t.Errorf("%q: %v %v, want %v", s, at, ok, want)
			}
		}
	})
}
