package deliver

import (
	"time"

	"fedpost/internal/message"
)

// line is where the retries of a queue stand that found no place. Each gets a turn, in the
// order in which they came, at the rate at which places become free if all hosts hang; a
// retry whose turn has come goes before one that has just come. Without turns, retries that
// have just come would overtake, again and again, those that wait.
type line struct {
	turn  time.Time // the last that was given
	given int       // how many have that turn
	wait  map[message.Unit]waiter
	order []waiter
}

// waiter is a retry in a line: its turn, and when it comes back next.
type waiter struct {
	message.Unit
	turn, back time.Time
}

const (
	// tick is how far apart turns are. All retries of a turn become visible at once, so
	// that they are received in full batches.
	tick = 5 * time.Second
	// longestLine bounds the retries that have turns. Those behind it come back after
	// longestCrowded.
	longestLine = 10_000
	// forgotten is after how long a retry that does not come back is not waited for any
	// more: it may have been cancelled, or another process may have it.
	forgotten = 4 * tick
)

// mayRetry reports whether the retry u may be made. If so, its invocation counts as one with
// retries until it ends. If not, the retry's turn is at the time returned.
func (u *unit) mayRetry() (ok bool, turn time.Time) {
	most := u.bounded()
	if most == 0 {
		return true, turn
	}
	s, now := u.shares, u.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l, found := s.line[u.from]
	if !found {
		l = &line{wait: map[message.Unit]waiter{}}
		s.line[u.from] = l
	}
	of := share{queue: u.from, retries: true}
	if l.mayGo(u.id, now) && s.enter(u.invocation, of, most, "") {
		delete(l.wait, u.id)
		return true, turn
	}
	perTick := most * int(tick) / int(u.Limits.Attempt+tick)
	return false, l.turnOf(u.id, max(1, perTick), now)
}

// mayGo reports whether a retry need not wait for others whose turn came before. Those of two
// turns may go together, or places would stay free until the last of a turn has come back.
func (l *line) mayGo(u message.Unit, now time.Time) bool {
	mine, waiting := l.wait[u]
	for len(l.order) > 0 {
		first := l.order[0]
		w, waits := l.wait[first.Unit]
		if waits = waits && w.turn.Equal(first.turn); waits && now.Sub(w.back) < forgotten {
			if waiting {
				return !mine.turn.After(now) && !mine.turn.After(w.turn.Add(tick))
			}
			return w.turn.After(now)
		}
		if waits {
			delete(l.wait, first.Unit)
		}
		l.order = l.order[1:]
	}
	return true
}

// turnOf is when a retry comes back. It keeps its turn, and comes at every tick after that.
func (l *line) turnOf(u message.Unit, perTick int, now time.Time) time.Time {
	next := now.Truncate(tick).Add(tick)
	if w, waits := l.wait[u]; waits {
		if w.back = next; w.turn.After(next) {
			w.back = w.turn
		}
		l.wait[u] = w
		return w.back
	}
	if len(l.wait) >= longestLine {
		return now.Add(longestCrowded)
	}
	switch {
	case l.turn.Before(next):
		l.turn, l.given = next, 0
	case l.given >= perTick:
		l.turn, l.given = l.turn.Add(tick), 0
	}
	l.given++
	w := waiter{u, l.turn, l.turn}
	l.wait[u] = w
	l.order = append(l.order, w)
	return l.turn
}
