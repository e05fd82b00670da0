package ledger

import (
	"testing"
	"time"
)

// TestSeveralCountsTriesAndNotWhatTheySay: a server chooses the text of an error.
func TestSeveralCountsTriesAndNotWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		tries []string // their errors
		want  bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{`{"t":1},{"t":2}`}, false},
		{[]string{`"},{"t":2,"e":"`}, false},
		{[]string{"", ""}, true},
		{[]string{`{"t":1},{"t":2}`, "reset"}, true},
		{[]string{"1", "2", "3", "4", "5", "6"}, true},
	} {
		var tries Tries
		for _, e := range c.tries {
			var err error
			if tries, err = tries.Add(Try{At: time.UnixMilli(7), Error: e}); err != nil {
				t.Fatal(err)
			}
		}
		if got := tries.Several(); got != c.want {
			t.Errorf("%q: %v, want %v", c.tries, got, c.want)
		}
	}
	for _, damaged := range []Tries{"{", `[{"t":1},{"t":`, `{"t":1}{"t":2}`} {
		if damaged.Several() {
			t.Errorf("%q passes for several tries", damaged)
		}
	}
}
