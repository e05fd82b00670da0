package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/engines/pgtest"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/property"
)

// TestTwoProcessesShareTheMessagesOfACrowd has two processes send and receive at random: receives
// that are given up, small limits, several receives asleep. Each message comes, soon, and each
// receipt once.
func TestTwoProcessesShareTheMessagesOfACrowd(t *testing.T) {
	for _, typ := range []queue.Type{queue.Standard, queue.Fair, queue.FIFO} {
		t.Run(string(typ), func(t *testing.T) {
			schema := pgtest.Schema(t)
			first := property.Rand(t)
			var mu sync.Mutex
			sent, seen, handles := map[string]time.Time{}, map[string]int{}, map[string]bool{}
			var worst time.Duration
			var late int
			working, stop := context.WithCancel(t.Context())
			defer stop()
			var senders, receivers sync.WaitGroup
			for p := range 2 {
				q := pgtest.Open(t, postgres.Options{Schema: schema, Type: typ}).Queue(queue.Normal)
				for r := range 8 {
					rnd := rand.New(rand.NewPCG(first.Uint64(), 1))
					receivers.Go(func() {
						for working.Err() == nil {
							ctx, cancel := working, context.CancelFunc(func() {})
							if r > 2 && rnd.IntN(3) == 0 {
								ctx, cancel = context.WithTimeout(working, time.Duration(rnd.IntN(30))*time.Millisecond)
							}
							o := queue.ReceiveOptions{Max: 1 + rnd.IntN(3)*rnd.IntN(4), Wait: time.Duration(1+rnd.IntN(2000)) * time.Millisecond, Visibility: 30 * time.Second}
							if r < 2 {
								o.Wait = queue.MaxWait
							}
							got, err := q.Receive(ctx, o)
							now := time.Now()
							cancel()
							if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
								t.Error(err)
							}
							mu.Lock()
							for _, m := range got {
								if handles[m.Handle] {
									t.Errorf("%s came twice", m.Handle)
								}
								handles[m.Handle] = true
								if seen[m.Body]++; seen[m.Body] == 1 {
									if at, ok := sent[m.Body]; ok {
										worst = max(worst, now.Sub(at))
										if now.Sub(at) > 200*time.Millisecond {
											late++
										}
									}
								}
							}
							mu.Unlock()
							for _, m := range got {
								var err error
								if rnd.IntN(6) == 0 {
									err = q.ChangeVisibility(t.Context(), m.Handle, 0)
								} else {
									err = q.Delete(t.Context(), m.Handle)
								}
								if err != nil {
									t.Error(err)
								}
							}
						}
					})
				}
				for s := range 3 {
					rnd := rand.New(rand.NewPCG(first.Uint64(), 2))
					senders.Go(func() {
						for i := range long.Pick(30, 1500) {
							var ms []queue.Message
							n := 1
							if rnd.IntN(5) == 0 {
								n += rnd.IntN(12)
							}
							for k := range n {
								m := queue.Message{Body: fmt.Sprint(p, " ", s, " ", i, " ", k), OrderingKey: fmt.Sprint(rnd.IntN(4))}
								if typ == queue.FIFO {
									m.OrderingKey, m.DeduplicationKey = fmt.Sprint(rnd.IntN(200)), m.Body
								}
								ms = append(ms, m)
							}
							for k, err := range q.SendBatch(t.Context(), ms) {
								if err != nil {
									t.Error(err)
								}
								mu.Lock()
								sent[ms[k].Body] = time.Now()
								mu.Unlock()
							}
							time.Sleep(time.Duration(rnd.IntN(20)*rnd.IntN(20)) * 100 * time.Microsecond)
						}
					})
				}
			}
			senders.Wait()
			end := time.Now()
			for time.Since(end) < 20*time.Second {
				mu.Lock()
				left := len(sent) - len(seen)
				mu.Unlock()
				if left == 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			took := time.Since(end)
			stop()
			receivers.Wait()
			for body := range sent {
				if seen[body] == 0 {
					t.Errorf("%s never came", body)
				}
			}
			t.Logf("%d messages, the latest %s after its send, %d late, the last %s after the end", len(sent), worst, late, took)
		})
	}
}
