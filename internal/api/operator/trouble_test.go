package operator

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/client"
)

// With 20,000 servers that are down, reports took all processors when a page and a monitor asked.
func TestReportsOfServersTakeATenthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last lastTrouble
		looks, takes := 0, time.Second
		look := func(r *client.Stats) error {
			time.Sleep(takes) // virtual
			looks++
			r.Servers["unhealthy"] = looks
			return nil
		}
		for begin := time.Now(); time.Since(begin) < 2*time.Minute; time.Sleep(time.Second) {
			if r, err := last.get(look); err != nil || r.Servers["unhealthy"] != looks {
				t.Fatal(r, err)
			}
		}
		if looks < 8 || looks > 12 {
			t.Errorf("%d looks of a second in two minutes", looks)
		}
		time.Sleep(time.Minute) // virtual
		if _, err := last.get(func(*client.Stats) error { return errors.New("the table is away") }); err == nil {
			t.Error("a failed look was answered with an old one")
		}
		before := looks
		for takes = 0; looks < before+5; time.Sleep(time.Nanosecond) {
			if _, err := last.get(look); err != nil { // each takes no time, so each looks
				t.Fatal(err)
			}
		}
	})
}
