package sqlite

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
)

var benchBody = strings.Repeat("x", 2<<10)

// BenchmarkSend has one caller: each send waits for its own sync.
func BenchmarkSend(b *testing.B) {
	q := openAt(b, file(b), Options{}).Queue(queue.Normal)
	for b.Loop() {
		if err := q.Send(b.Context(), queue.Message{Body: benchBody}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSendParallel has 64 callers per core, which share syncs.
func BenchmarkSendParallel(b *testing.B) {
	q := openAt(b, file(b), Options{}).Queue(queue.Normal)
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := q.Send(b.Context(), queue.Message{Body: benchBody}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkReceiveDelete takes messages ten at a time from a backlog and
// deletes them, as the event source does.
func BenchmarkReceiveDelete(b *testing.B) {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		b.Run(string(name), func(b *testing.B) {
			q := openAt(b, file(b), Options{}).Queue(name)
			ms := make([]queue.Message, b.N)
			for i := range ms {
				ms[i] = queue.Message{Body: benchBody}
				if name.Ordered() {
					ms[i].OrderingKey, ms[i].DeduplicationKey = fmt.Sprint(i%100), fmt.Sprint(i)
				}
			}
			for _, err := range q.SendBatch(b.Context(), ms) {
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			for n := 0; n < b.N; {
				got, err := q.Receive(b.Context(), queue.ReceiveOptions{Max: queue.MaxBatch})
				if err != nil || len(got) == 0 {
					b.Fatalf("%d messages, error %v", len(got), err)
				}
				for _, r := range got {
					if err := q.Delete(b.Context(), r.Handle); err != nil {
						b.Fatal(err)
					}
				}
				n += len(got)
			}
		})
	}
}

// BenchmarkReceiveBehindAStuckGroup has 20,000 messages behind one in flight.
func BenchmarkReceiveBehindAStuckGroup(b *testing.B) {
	q := openAt(b, file(b), Options{}).Queue(queue.Ordered)
	ms := make([]queue.Message, 20_000)
	for i := range ms {
		ms[i] = queue.Message{Body: "x", OrderingKey: "stuck", DeduplicationKey: fmt.Sprint(i)}
	}
	for _, err := range q.SendBatch(b.Context(), ms) {
		if err != nil {
			b.Fatal(err)
		}
	}
	if got, err := q.Receive(b.Context(), queue.ReceiveOptions{Max: 1, Visibility: queue.MaxVisibility}); err != nil || len(got) != 1 {
		b.Fatalf("%d messages, error %v", len(got), err)
	}
	for b.Loop() {
		if got, err := q.Receive(b.Context(), queue.ReceiveOptions{Max: 10}); err != nil || len(got) != 0 {
			b.Fatalf("%d messages, error %v", len(got), err)
		}
	}
}

// BenchmarkPutParallel has 64 callers per core, which claim keys.
func BenchmarkPutParallel(b *testing.B) {
	t := openAt(b, file(b), Options{}).Table()
	var n atomic.Int64
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			it := table.Item{Key: table.Key{PK: fmt.Sprint("key", n.Add(1)), SK: "marker"}, Fence: "token", Data: []byte(benchBody)}
			if err := t.Put(b.Context(), it, table.Cond{Absent: true}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkGet(b *testing.B) {
	t := openAt(b, file(b), Options{}).Table()
	k := table.Key{PK: "a", SK: "b"}
	if err := t.Put(b.Context(), table.Item{Key: k, Data: []byte(benchBody)}, table.Cond{}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := t.Get(b.Context(), k); err != nil {
			b.Fatal(err)
		}
	}
}
