package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/caller"
	"fedpost/internal/testkit/fediverse"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/property"
)

const (
	// answering is how long most servers take to answer.
	answering = 30 * time.Millisecond
	// lag is how much later a server may record what was sent before a kill: its machine has other
	// things to do.
	lag = time.Second
)

// TestWhatWasAcceptedSurvivesKill9 kills `fedpost up` at random moments while
// activities are submitted and delivered. In the end every accepted activity is delivered,
// and no delivery happens twice unless a server answered it just before a kill.
func TestWhatWasAcceptedSurvivesKill9(t *testing.T) {
	crash(t, Embedded(), queue.Standard, 1, long.Pick(2, 4), 2*time.Second)
}

// TestWhatLiesOnFIFOQueuesSurvivesKill9 does the same with FIFO queues.
func TestWhatLiesOnFIFOQueuesSurvivesKill9(t *testing.T) {
	long.Only(t, "a process is killed four times")
	crash(t, Embedded(), queue.FIFO, 1, 4, 2*time.Second)
}

// slow is how long one inbox of each fan-out takes to answer: longer than outcomes may wait for the
// journal, so that kills find some that are only in the journal.
const slow = 1500 * time.Millisecond

// TestWhatWasAcceptedSurvivesKill9OnPostgreSQL kills one of three processes after the other.
// The leases of the dead have to lapse, as others are alive.
func TestWhatWasAcceptedSurvivesKill9OnPostgreSQL(t *testing.T) {
	long.Only(t, "the leases of dead processes have to lapse")
	for _, typ := range []queue.Type{queue.Standard, queue.FIFO} {
		t.Run(string(typ), func(t *testing.T) { crash(t, Postgres(), typ, 3, 3, 6*time.Second) })
	}
}

// TestWhatWasAcceptedSurvivesKill9OnAWS takes longer: nobody there knows that the process is dead,
// so its messages and claims have to lapse.
func TestWhatWasAcceptedSurvivesKill9OnAWS(t *testing.T) {
	for _, typ := range []queue.Type{queue.FIFO, queue.Standard} {
		t.Run(string(typ), func(t *testing.T) { crash(t, AWS(), typ, 1, 2, 6*time.Second) })
	}
}

// crash kills processes one after the other, several times. gap is how long a delivery may have
// been answered and not yet be recorded: the engine records settled outcomes every second, and
// writes take their time.
func crash(t *testing.T, e Engine, typ queue.Type, processes, kills int, gap time.Duration) {
	e.Require(t)
	t.Parallel()
	const each = 60
	command, data := Build(t), t.TempDir()
	environ := map[string]string{}
	if e.environ != nil {
		environ = e.environ(t, typ)
	}
	environ["QUEUE_TYPE"] = string(typ)
	w := &World{Engine: e, t: t, keys: publicKeys{}}
	var ps []*Process
	for range processes {
		ps = append(ps, Up(t, command, data, environ))
	}
	w.Client = caller.Of(t, ps[0].URL)
	w.AddKey(fediverse.Ed25519KeyID, PrivatePEM(t, fediverse.Ed25519KeyID))
	var recipients []string
	var remotes []*Remote
	for range 3 {
		r := w.RemoteBehind(slowly(answering))
		remotes = append(remotes, r)
		recipients = append(recipients, r.URLs(each/3)...)
	}
	late := w.RemoteBehind(slowly(slow))
	remotes = append(remotes, late)

	halts := watchHalts(t)
	var url atomic.Value
	url.Store(ps[0].URL)
	stop := make(chan struct{})
	sent := make(chan map[string]string, 1)
	go func() { sent <- submitUntil(t, stop, &url, recipients, late.URLs(1)[0]) }()
	var died []time.Time
	draw := property.Rand(t)
	for n := range kills {
		p := &ps[n%processes]
		// Some live for long enough to get the slow inbox's answer, and most do not.
		wait(t, time.Duration(300+draw.IntN(2200))*time.Millisecond)
		(*p).Kill()
		died = append(died, time.Now())
		if processes > 1 {
			url.Store(ps[(n+1)%processes].URL) // which is killed next
		}
		*p = Up(t, command, data, environ)
		if processes == 1 {
			url.Store((*p).URL)
		}
	}
	close(stop)
	w.Client = caller.Of(t, ps[0].URL)
	ids := <-sent
	deliveries := 0
	for name, id := range ids {
		want := each + 1
		if name[0] == 'o' {
			want = 3
		}
		deliveries += want
		w.EndsWithin(time.Minute+e.lapse, id, map[string]int{"delivered": want})
	}

	doubled := 0
	for _, r := range remotes {
		takes := answering
		if r == late {
			takes = slow
		}
		doubled += duplicates(t, r, takes, died, gap, halts)
	}
	t.Logf("%d kills, %d activities accepted, %d deliveries, %d of them twice", kills, len(ids), deliveries, doubled)
}

// slowly answers after a while.
func slowly(d time.Duration) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(d):
				h.ServeHTTP(w, r)
			case <-r.Context().Done():
			}
		})
	}
}

func wait(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// submitUntil submits activities to a running process, ordered ones among them. A call that failed
// is repeated with its key, as careful clients do, and after a 409 later. It returns the ids that
// were accepted, by name.
func submitUntil(t *testing.T, stop <-chan struct{}, url *atomic.Value, recipients []string, late string) map[string]string {
	ids := map[string]string{}
	submit := func(s client.Submission) bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		a, err := caller.Of(t, url.Load().(string)).Send(ctx, s)
		if err != nil {
			return false
		}
		ids[s.DeduplicationKey] = a.ID
		return true
	}
	var again []client.Submission
	for n := 0; ; n++ {
		s := submission(note(fmt.Sprintf("fan-out-%d", n)), fediverse.Ed25519KeyID, append(recipients, late)...)
		s.DeduplicationKey = fmt.Sprintf("fan-out-%d", n)
		if n%5 == 0 {
			s = submission(note(fmt.Sprintf("ordered-%d", n)), fediverse.Ed25519KeyID, recipients[0], recipients[len(recipients)/2], recipients[len(recipients)-1])
			s.OrderingKey, s.DeduplicationKey = "zoe", fmt.Sprintf("ordered-%d", n)
		}
		if !submit(s) {
			again = append(again, s)
		}
		again = slices.DeleteFunc(again, submit)
		select {
		case <-stop:
			return ids
		case <-t.Context().Done():
			return ids
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// duplicates counts deliveries that a server got twice, and reports those that no kill explains.
// takes is how long the server takes to answer, and to record what was sent before the process
// died. Halts of the machine count as no time.
func duplicates(t *testing.T, r *Remote, takes time.Duration, died []time.Time, gap time.Duration, halts *halts) int {
	first := map[string]fediverse.Post{}
	doubled := 0
	for _, p := range r.Posts() {
		if p.Refused != nil {
			t.Errorf("%s refused a POST: %v", r.Host, p.Refused)
		}
		key := p.URL + " " + p.ActivityID
		before, again := first[key]
		if !again {
			first[key] = p
			continue
		}
		doubled++
		explained := false
		for _, at := range died {
			explained = explained || before.At.Before(at.Add(takes+lag)) && at.Sub(before.At) < gap+halts.between(before.At, at) && p.At.After(at)
		}
		if !explained {
			t.Errorf("%s came at %s and again at %s; the process died at %s", key, before.At, p.At, died)
		}
		first[key] = p
	}
	return doubled
}
