package coalesce_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/coalesce"
)

// TestOnlyADifferentActivityInBetweenPostponesRedundancy: what says the same, or was accepted before what
// was delivered last, or too long ago to be under way, makes no redundant activity wait.
func TestOnlyADifferentActivityInBetweenPostponesRedundancy(t *testing.T) {
	const other = `{"type":"Update","object":{"id":"https://a/1","content":"other"}}`
	ts := []activity.Target{{Inbox: "https://a.example/inbox", Stands: 1}}
	for name, c := range map[string]struct {
		body      string
		at, now   int
		postponed bool
	}{
		"other news in between":     {other, 20, 31, true},
		"the same in between":       {update, 20, 31, false},
		"other news from before":    {other, 5, 31, false},
		"other news, long answered": {other, 20, 30 + 75, false},
	} {
		t.Run(name, func(t *testing.T) {
			store := &notes{accepted: map[string][]coalesce.Accepted{}, delivered: map[string]coalesce.Delivered{}}
			f := coalesce.Filter{Store: store, Now: func() time.Time { return at(c.now) }, Pending: time.Hour, Remember: time.Hour}
			act := func(seconds int, body string) activity.Activity {
				a := activity.Activity{ID: activity.DerivedID(at(seconds), body), Body: body, CreatedAt: at(seconds), Options: activity.Options{Coalesce: activity.CoalesceLatest}}
				if err := f.Accepted(t.Context(), a, ts); err != nil {
					t.Fatal(err)
				}
				return a
			}
			last, between, own := act(10, update), act(c.at, c.body), act(30, update)
			if err := f.Delivered(t.Context(), last, ts); err != nil {
				t.Fatal(err)
			}
			want := coalesce.Verdict{State: activity.Redundant, By: last.ID}
			if c.postponed {
				want = coalesce.Verdict{State: activity.Retrying, By: between.ID, Until: at(30 + 75)}
			}
			got, err := f.Needless(t.Context(), own, ts)
			if d := cmp.Diff(map[int]coalesce.Verdict{0: want}, got); d != "" || err != nil {
				t.Errorf("(-want +got):\n%s%v", d, err)
			}
		})
	}
}
