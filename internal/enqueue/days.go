package enqueue

import (
	"strconv"
	"strings"
	"time"
)

// days writes a duration for people: "30 days" in place of "720h0m0s".
func days(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == day:
		return "1 day"
	case d > 0 && d%day == 0:
		return strconv.Itoa(int(d/day)) + " days"
	}
	s := d.String()
	for _, zero := range []string{"0s", "0m"} {
		if cut, ok := strings.CutSuffix(s, zero); ok && strings.HasSuffix(cut, "m") || ok && strings.HasSuffix(cut, "h") {
			s = cut
		}
	}
	return s
}
