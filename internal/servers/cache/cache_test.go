package cache

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
)

// answers gives the states of servers as of when it was asked, but the first
// answer comes last.
type answers struct {
	circuit.Store
	state  circuit.State
	asked  int
	second chan struct{} // closed when the second answer was given
}

func (a *answers) Servers(context.Context, ...string) (map[string]circuit.State, error) {
	state := a.state
	if a.asked++; a.asked == 1 {
		<-a.second
	}
	return map[string]circuit.State{state.Key: state}, nil
}

// An ordered delivery must know of what was parked of its group before it was
// received, although an earlier question to the table may be answered later.
func TestAFreshLookIsNotLostToALateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := activity.Target{Inbox: "https://a.example/inbox"}
		store := &answers{state: circuit.State{Key: circuit.HostKey(target.Host())}, second: make(chan struct{})}
		h := New(store, circuit.Rules{}.Complete(), time.Minute, time.Now, slog.New(slog.DiscardHandler))
		look := func() map[string]circuit.State {
			read, err := h.LoadFor(t.Context(), true, []activity.Target{target})
			if err != nil {
				t.Error(err)
			}
			return read
		}
		go look()
		synctest.Wait() // it has asked
		store.state.Parked = true
		read := look()
		close(store.second)
		synctest.Wait()
		if !read[store.state.Key].Parked {
			t.Error("the look did not tell what it saw")
		}
	})
}
