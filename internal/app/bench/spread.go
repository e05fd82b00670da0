package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Spread is a distribution of times, in seconds.
type Spread struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// spread collects times.
type spread struct {
	mu  sync.Mutex
	all []time.Duration
}

func newSpread(most int) *spread { return &spread{all: make([]time.Duration, 0, most)} }

func (s *spread) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, d)
}

// result is the distribution; the p-th percentile is the smallest time that at least p of
// a hundred do not exceed.
func (s *spread) result() Spread {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return Spread{}
	}
	slices.Sort(s.all)
	at := func(percent int) float64 { return s.all[(len(s.all)*percent+99)/100-1].Seconds() }
	return Spread{P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

// Times are how long the servers take to answer: always the same time ("20ms"), any time
// between two with the same likelihood ("5ms-50ms"), or exponentially distributed around a
// mean, cut at ten times the mean ("~20ms"). The zero value is at once.
type Times struct {
	kind      byte // 0: low always; '-': low to high; '~': mean low
	low, high time.Duration
}

// longestTime bounds an answer: beyond it fedpost itself gives a request up.
const longestTime = 15 * time.Second

func (t *Times) UnmarshalText(b []byte) error {
	text := string(b)
	if text == "" || text == "0" {
		*t = Times{}
		return nil
	}
	n := Times{}
	if rest, ok := strings.CutPrefix(text, "~"); ok {
		n.kind, text = '~', rest
	}
	first, second, ranged := strings.Cut(text, "-")
	var err error
	if n.low, err = time.ParseDuration(first); err == nil && ranged && n.kind == 0 {
		n.kind = '-'
		n.high, err = time.ParseDuration(second)
	} else if ranged {
		err = fmt.Errorf("a mean has no second time")
	}
	switch {
	case err != nil:
		return fmt.Errorf("%q is no time to answer, such as 20ms, 5ms-50ms or ~20ms: %w", b, err)
	case n.low < 0 || n.low > longestTime || n.high > longestTime || n.kind == '-' && n.high < n.low:
		return fmt.Errorf("%q: a time to answer is at most %s, and a range goes upwards", b, longestTime)
	}
	*t = n
	return nil
}

func (t Times) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

func (t Times) String() string {
	switch t.kind {
	case '-':
		return t.low.String() + "-" + t.high.String()
	case '~':
		return "~" + t.low.String()
	}
	if t.low == 0 {
		return "0"
	}
	return t.low.String()
}

func (t Times) draw() time.Duration {
	switch t.kind {
	case '-':
		return t.low + time.Duration(rand.Int64N(int64(t.high-t.low)+1))
	case '~':
		return min(time.Duration(rand.ExpFloat64()*float64(t.low)), 10*t.low, longestTime)
	}
	return t.low
}
