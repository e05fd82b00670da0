package bench

import (
	"testing"
	"time"
)

// A soak's file grows by its dead letters, the first of which come after the give-up time: they are no
// leak. What each delivery leaves behind is one.
func TestTheGaugeDistinguishesDeadLettersFromALeak(t *testing.T) {
	const quarter, bytes = 250_000, 60
	for name, c := range map[string]struct {
		file [4]int64 // bytes of a delivery, by quarter
		dead [4]int
		leak bool
	}{
		"flat":                            {file: [4]int64{bytes, bytes, bytes, bytes}},
		"flat, and some die":              {file: [4]int64{bytes, bytes, bytes, bytes}, dead: [4]int{0, 0, 12_000, 14_000}},
		"a delivery costs twice as much":  {file: [4]int64{bytes, bytes, bytes, 2 * bytes}, leak: true},
		"the same, and as many die":       {file: [4]int64{bytes, bytes, bytes, 2 * bytes}, dead: [4]int{9_000, 9_000, 9_000, 9_000}, leak: true},
		"what dies costs twice its bound": {file: [4]int64{bytes, bytes, bytes, bytes + 12_000*deadLetter/quarter}, dead: [4]int{0, 0, 0, 12_000}, leak: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := &gauge{t: t}
			var s sample
			for q, each := range c.file {
				for range 100 {
					s.at += time.Second
					s.done, s.dead = s.done+quarter/100, s.dead+c.dead[q]/100
					s.file += each*quarter/100 + int64(c.dead[q]/100)*deadLetter
					s.memory, s.log = 150<<20, 6<<20
					g.samples = append(g.samples, s)
				}
			}
			if complaints := g.growth(); (len(complaints) > 0) != c.leak {
				t.Errorf("complaints are %q, of a leak: %t", complaints, c.leak)
			}
		})
	}
}
