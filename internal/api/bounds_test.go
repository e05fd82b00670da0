package api_test

import (
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"fedpost/internal/testkit/long"
)

// TestALargeRequestOfNonsenseIsGivenUpEarly: what an attempt costs grows with
// the bytes that came, as they have to be read, but not with the faults in them.
// 800,000 unknown fields took 17 s and 485 MB.
func TestALargeRequestOfNonsenseIsGivenUpEarly(t *testing.T) {
	const size = 4 << 20
	fill := func(format string) string {
		var b strings.Builder
		for n := 0; b.Len() < size; n++ {
			fmt.Fprintf(&b, format, n)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	name := strings.Repeat("x", size)
	for about, c := range map[string]struct{ path, body string }{
		"unknown fields":          {"/v1/activities", `{` + fill(`"f%d":0,`) + `}`},
		"one field again":         {"/v1/activities", `{"keyId":"` + fill(`%d","keyId":"`) + `"}`},
		"a long name":             {"/v1/activities", `{"` + name + `":0}`},
		"a long value":            {"/v1/keys", `{"id":"a","type":"` + name + `"}`},
		"a long duration":         {"/v1/activities", `{"delay":"` + name + `"}`},
		"recipients of no kind":   {"/v1/activities", `{"recipients":[` + fill(`%d,`) + `]}`},
		"recipients with more":    {"/v1/activities", `{"recipients":[` + fill(`{"inbox":"https://a.example/%d","x":0},`) + `]}`},
		"many recipients":         {"/v1/activities", `{"recipients":[` + fill(`"u%d",`) + `]}`},
		"a recipient's fields":    {"/v1/activities", `{"recipients":[{` + fill(`"f%d":0,`) + `}]}`},
		"a batch of nothing":      {"/v1/activities/batch", `{"activities":[` + strings.TrimSuffix(strings.Repeat("{},", size/3), ",") + `]}`},
		"a batch of numbers":      {"/v1/activities/batch", `{"activities":[` + fill(`%d,`) + `]}`},
		"a batch of other fields": {"/v1/activities/batch", `{"activities":[` + fill(`{"f%d":0},`) + `]}`},
	} {
		w := newWorld(t)
		r := httptest.NewRequest("POST", c.path, strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w.api.ServeHTTP(rec, r)
		runtime.ReadMemStats(&after)
		if rec.Code != 400 {
			t.Errorf("%s: answered %d", about, rec.Code)
		}
		// Reading a body of 4 MB doubles its buffer, some 20 MB in all; a copy of the
		// values is made twice at most. Of recipients 200,000 are read, with some
		// allocations each: 165 MB. Under the race detector pools lose what they are given, and Go
		// 1.27 takes a buffer for each: 573 MB.
		mallocs, bytes := after.Mallocs-before.Mallocs, (after.TotalAlloc-before.TotalAlloc)>>20
		if mallocs > 15*200_000 || bytes > 200 && !long.UnderRace {
			t.Errorf("%s: %d allocations, %d MB", about, mallocs, bytes)
		}
		if rec.Body.Len() > 100*1024 || strings.Count(rec.Body.String(), `"pointer"`) > 100 {
			t.Errorf("%s: the answer has %d bytes and %d faults", about, rec.Body.Len(), strings.Count(rec.Body.String(), `"pointer"`))
		}
		t.Logf("%-24s %7d allocations, %3d MB, answer of %d bytes", about, mallocs, bytes, rec.Body.Len())
	}
}
