package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fedpost/client"
	"fedpost/internal/app/progress"
)

// Run makes one measurement of the fedpost that c talks to, whose deliveries arrive at s.
// pid is its process on this machine, 0 if it is elsewhere.
//
// An error means that nothing was measured. Failures of deliveries are in Result.Faults.
func Run(ctx context.Context, c *client.Client, pid int, s *Sinks, u Units) (Result, error) {
	p := s.plan
	r := &run{Plan: p, client: c, sinks: s, book: newBook(p), accepting: newSpread(p.Activities), pid: pid}
	key, err := c.GenerateKey(ctx, "https://bench.example/users/zoe#"+strings.ToLower(rand.Text()), p.Key)
	if err != nil {
		return Result{}, fmt.Errorf("make a key: %w", err)
	}
	r.key = key.ID
	defer r.forgetKey()
	if err := r.warm(ctx); err != nil {
		return Result{}, err
	}
	for _, n := range []*atomic.Int64{&s.connections, &s.handshakes, &s.resumed, &s.overHTTP2} {
		n.Store(0)
	}
	progress.Begin(ctx, fmt.Sprintf("delivering, %s %s", p.Mix, p.Key), func() (done, all int64) { return r.book.first.Load(), int64(r.book.want) })
	before, known := processor(pid)
	begin := time.Now()
	if p.Beside > 0 {
		if err := r.call(ctx, 0, p.Activities); err != nil {
			return Result{}, fmt.Errorf("hand over the activity beside: %w", err)
		}
	}
	r.load(ctx)
	select {
	case <-r.book.done:
	case <-ctx.Done():
	}
	res := Result{Plan: p, Deliveries: int(r.book.first.Load())}
	res.Seconds = time.Unix(0, r.book.last.Load()).Sub(begin).Seconds()
	if known {
		used := r.rest(ctx) - before
		res.Server = usage(used, res.Deliveries, u)
		res.Server.Memory = float64(memory(pid)) / (1 << 20)
	}
	res.Faults = r.book.close()
	s.book.Store(nil)
	res.Connections, res.Handshakes, res.Resumed = int(s.connections.Load()), int(s.handshakes.Load()), int(s.resumed.Load())
	res.OverHTTP2 = int(s.overHTTP2.Load())
	res.Accepting, res.Arriving, res.Waiting = r.accepting.result(), r.book.after(r.book.begun), r.book.after(r.book.answered)
	if res.Seconds > 0 {
		res.PerSecond = float64(res.Deliveries) / res.Seconds
	}
	return res, nil
}

func usage(used time.Duration, deliveries int, u Units) *Usage {
	each := used.Seconds() / float64(max(1, deliveries))
	return &Usage{Processor: used.Seconds(), Each: each * 1000, InSignatures: each / u.Signature}
}

// Caller is an HTTP client that keeps a connection for each caller of a plan.
func Caller(p Plan) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: p.Callers}}
}

// run is one measurement under way.
type run struct {
	Plan
	client    *client.Client
	sinks     *Sinks
	book      *book
	key       string
	accepting *spread
	pid       int
}

// forgetKey removes the key, so that a fedpost that stays has none of ours.
func (r *run) forgetKey() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// A server of our own may have ended.
	_, _ = r.client.DeleteKey(ctx, r.key, false)
}

// warm delivers one activity, so that one-time costs are not measured. It goes to one server, or to
// all if the plan says Known.
func (r *run) warm(ctx context.Context) error {
	b := newBook(Plan{Mix: Single, Activities: 1, Recipients: r.Hosts, Callers: 1, Hosts: r.Hosts, Sick: r.Sick})
	s := client.Submission{Activity: bodyOf(0, r.Body), KeyID: r.key}
	for host := range r.Hosts {
		if !r.sick(host) && (r.Known || len(s.Recipients) == 0) {
			s.Recipients = append(s.Recipients, client.Recipient{Inbox: r.sinks.Inbox(0, host)})
		}
	}
	b.want = len(s.Recipients)
	r.sinks.book.Store(b)
	if _, err := r.client.Send(ctx, s); err != nil {
		return fmt.Errorf("hand over a first activity: %w", err)
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return fmt.Errorf("a first activity did not arrive everywhere, at %s for example: %w", s.Recipients[0].Inbox, context.Cause(ctx))
	}
	r.rest(ctx)
	if faults := b.close(); len(faults) > 0 {
		return fmt.Errorf("a first activity arrived wrong: %s", faults[0])
	}
	r.sinks.book.Store(r.book)
	return nil
}

// load makes the calls and returns when all are answered.
func (r *run) load(ctx context.Context) {
	var callers sync.WaitGroup
	begin := time.Now()
	for caller := range r.Callers {
		callers.Go(func() {
			for n := caller; n < r.Activities && ctx.Err() == nil; n += r.Callers {
				if r.Rate > 0 {
					due := begin.Add(time.Duration(float64(n) / r.Rate * float64(time.Second)))
					if !sleep(ctx, time.Until(due)) {
						return
					}
				}
				if err := r.call(ctx, caller, n); err != nil && ctx.Err() == nil {
					r.book.fault("activity %d was not accepted: %v", n, err)
				}
			}
		})
	}
	callers.Wait()
}

// call submits one activity.
func (r *run) call(ctx context.Context, caller, n int) error {
	s := client.Submission{Activity: bodyOf(n, r.Body), KeyID: r.key, Recipients: make([]client.Recipient, r.recipients(n))}
	for i := range s.Recipients {
		s.Recipients[i].Inbox = r.sinks.Inbox(n, i)
	}
	mix := r.Mix
	if n == r.Activities {
		mix = FanOut
	}
	switch mix {
	case Ordered:
		s.OrderingKey = fmt.Sprintf("%s/%d", r.key, caller)
	case Keyed:
		s.DeduplicationKey = fmt.Sprintf("%s/%d", r.key, n)
	}
	begin := time.Now()
	r.book.begun[n].Store(begin.UnixNano())
	a, err := r.client.Send(ctx, s)
	if err != nil {
		return err
	}
	r.book.answered[n].Store(time.Now().UnixNano())
	if n < r.Activities {
		r.accepting.add(time.Since(begin))
	}
	if a.Status != "queued" || a.Recipients != len(s.Recipients) {
		return fmt.Errorf("answered %q for %d recipients", a.Status, a.Recipients)
	}
	if mix == Keyed && n%10 == 0 {
		again, err := r.client.Send(ctx, s)
		if err == nil && (again.Status != "duplicate" || again.ID != a.ID) {
			err = errors.New("the same call with the same deduplication key is no duplicate")
		}
		return err
	}
	return nil
}

// rest waits until the server uses less than a fiftieth of a processor for 400 ms, 5 s at most, and
// returns its processor time.
func (r *run) rest(ctx context.Context) time.Duration {
	const look, looks = 200 * time.Millisecond, 25
	before, _ := processor(r.pid)
	calm := 0
	for range looks {
		if !sleep(ctx, look) {
			break
		}
		now, known := processor(r.pid)
		if calm++; now-before > look/50+time.Second/ticks {
			calm = 0
		}
		if before = now; calm == 2 || !known {
			break
		}
	}
	return before
}

// sleep waits for d, and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
