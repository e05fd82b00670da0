package operator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/client"
)

// With 20,000 servers that are down, reports took all processors when a page and a monitor asked.
func TestReportsOfServersTakeATenthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := lastTrouble{lock: make(chan struct{}, 1)}
		looks, takes := 0, time.Second
		look := func(r *client.Stats) error {
			time.Sleep(takes) // virtual
			looks++
			r.Servers["unhealthy"] = looks
			return nil
		}
		for begin := time.Now(); time.Since(begin) < 2*time.Minute; time.Sleep(time.Second) {
			if r, err := last.get(t.Context(), look); err != nil || r.Servers["unhealthy"] != looks {
				t.Fatal(r, err)
			}
		}
		if looks < 8 || looks > 12 {
			t.Errorf("%d looks of a second in two minutes", looks)
		}
		time.Sleep(time.Minute) // virtual
		if _, err := last.get(t.Context(), func(*client.Stats) error { return errors.New("the table is away") }); err == nil {
			t.Error("a failed look was answered with an old one")
		}
		last.lock <- struct{}{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := last.get(ctx, look); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who went away while another looked was told %v", err)
		}
		<-last.lock
		before := looks
		for takes = 0; looks < before+5; time.Sleep(time.Nanosecond) {
			if _, err := last.get(t.Context(), look); err != nil { // each takes no time, so each looks
				t.Fatal(err)
			}
		}
	})
}
