package api

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"fedpost/internal/api/problem"
)

// limits are the rate limits: one for each role, and one for all requests without a valid token,
// which also limits how fast tokens can be guessed. Strangers cannot make the table of limits grow.
type limits struct {
	perMinute int
	by        map[string]*rate.Limiter // by role; "": without a valid token
}

// newLimits returns the limits of an API, nil if it has none.
func newLimits(perMinute int, t Tokens) *limits {
	if perMinute <= 0 {
		return nil
	}
	l := &limits{perMinute: perMinute, by: map[string]*rate.Limiter{"": nil}}
	for _, r := range t.roles() {
		l.by[r.name] = nil
	}
	for who := range l.by {
		l.by[who] = rate.NewLimiter(l.rate(), perMinute)
	}
	return l
}

func (l *limits) rate() rate.Limit { return rate.Limit(float64(l.perMinute) / 60) }

// take counts a request, and sets the headers of h. The problem, if there is one, is the
// answer.
// https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/10/
func (l *limits) take(h http.Header, who string, now time.Time) *problem.Problem {
	if l == nil {
		return nil
	}
	limiter, name := l.by[who], cmp.Or(who, "anyone")
	allowed := limiter.AllowN(now, 1)
	left := max(0, limiter.TokensAt(now))
	seconds := func(tokens float64) float64 { return math.Ceil(tokens/float64(l.rate()) - 1e-6) }
	h.Set("RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=60", name, l.perMinute))
	h.Set("RateLimit", fmt.Sprintf("%q;r=%d;t=%.0f", name, int(left), seconds(float64(l.perMinute)-left)))
	if allowed {
		return nil
	}
	whose := "with this token"
	if who == "" {
		whose = "without a valid token"
	}
	return problem.New(http.StatusTooManyRequests,
		fmt.Sprintf("Requests %s are limited to %d a minute. Send several activities in one request, or follow events instead of asking for each activity.", whose, l.perMinute)).
		After(time.Duration(max(1, seconds(1-left))) * time.Second)
}
