package outcome

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// whole is a pause with the second that it is waited for longer, as its server may have rounded
// it down.
func whole(pause time.Duration) time.Duration { return min(pause+time.Second, MaxPause) }

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
		{"", 0},
		{"0", 0},
		{"-5", 0},
		{"+5", 0},
		{"1.5", 0},
		{"5s", 0},
		{"٣", 0},
		{"soon", 0},
		{"2026-11-20T12:05:00Z", 0},
	} {
		at, ok := RetryAfter(c.value, noon)
		if ok != (c.pause != 0) || (ok && !at.Equal(noon.Add(whole(c.pause)))) {
			t.Errorf("%q: %v %v, want a pause of %v", c.value, at, ok, whole(c.pause))
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
		want := noon.Add(whole(min(time.Duration(seconds)*time.Second, MaxPause)))
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

// TestRateLimitReset: ISO 8601 is what Mastodon and GoToSocial write.
func TestRateLimitReset(t *testing.T) {
	for _, c := range []struct {
		value string
		pause time.Duration // 0: nothing asked
	}{
		{"2026-11-20T12:05:00Z", 5 * time.Minute},
		{"2026-11-20T12:05:00.250000Z", 5*time.Minute + 250*time.Millisecond}, // Mastodon
		{"2026-11-20T13:05:00+01:00", 5 * time.Minute},
		{"2026-11-20T12:05:00", 5 * time.Minute}, // without a zone it is UTC
		{"1795176300", 5 * time.Minute},          // seconds since 1970
		{"1795176300000", 5 * time.Minute},       // milliseconds
		{"300", 5 * time.Minute},                 // seconds from now
		{" 300 ", 5 * time.Minute},
		{"999999999", MaxPause},
		{"2060-11-20T12:05:00Z", MaxPause},
		{"9999-12-31T23:59:59Z", MaxPause},
		{"9223372036854775807", MaxPause},
		{"99999999999999999999999", MaxPause},
		{"2026-11-20T12:00:00Z", 0},
		{"1795176000", 0}, // now
		{"2026-11-20T11:00:00Z", 0},
		{"1000000000", 0}, // past
		{"", 0},
		{"0", 0},
		{"-5", 0},
		{"1.5", 0},
		{"soon", 0},
		{"2026-13-20T12:05:00Z", 0},
		{"Fri, 20 Nov 2026 12:05:00 GMT", 0},
	} {
		at, ok := RateLimitReset(c.value, noon)
		if ok != (c.pause != 0) || (ok && !at.Equal(noon.Add(whole(c.pause)))) {
			t.Errorf("%q: %v %v, want a pause of %v", c.value, at, ok, whole(c.pause))
		}
	}
}
