package main

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAStepSaysWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s steps
		says := func(want string) {
			t.Helper()
			if got := s.String(); got != want {
				t.Errorf("says %q, want %q", got, want)
			}
		}
		says("")
		s.begin("checking", nil)
		says("checking")
		var done, all int64
		s.begin("copying", func() (int64, int64) { return done, all })
		says("copying")
		done = 7
		says("copying, 7")
		done, all = 0, 40
		time.Sleep(10 * time.Second)
		says("copying, 0 %")
		done = 10
		says("copying, 25 %, about 30s left")
		done = 50 // it grew meanwhile
		says("copying, 100 %, about 0s left")
	})
}
