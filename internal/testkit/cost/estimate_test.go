package cost

import (
	"strings"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/engine/table"
)

// TestCallsAreCountedAsAWSBillsThem goes through the rules one by one.
func TestCallsAreCountedAsAWSBillsThem(t *testing.T) {
	e, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx := t.Context()
	item := func(sk string, size int) table.Item {
		it := table.Item{Key: table.Key{PK: "p", SK: sk}}
		it.Data = []byte(strings.Repeat("x", size-it.Size()))
		return it
	}
	due := item("due", 900)
	due.Due = table.Due{Shard: "s", At: time.Now()}
	large := item("large", 1025)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ignore := func(error) {}
	for _, c := range []struct {
		name string
		call func(queue.Queue, table.Table)
		want Usage
	}{
		{"a small item", func(_ queue.Queue, tb table.Table) { must(tb.Put(ctx, item("a", 1024), table.Cond{})) }, Usage{Requests: 1, WriteUnits: 1}},
		{"a byte more", func(_ queue.Queue, tb table.Table) { must(tb.Put(ctx, large, table.Cond{})) }, Usage{Requests: 1, WriteUnits: 2}},
		{"an item in the index", func(_ queue.Queue, tb table.Table) { must(tb.Put(ctx, due, table.Cond{})) }, Usage{Requests: 1, WriteUnits: 2}},
		{"a condition that fails", func(_ queue.Queue, tb table.Table) {
			ignore(tb.Put(ctx, large, table.Cond{Absent: true}))
		}, Usage{Requests: 1, WriteUnits: 2, Failures: 1}},
		{"26 items at once", func(_ queue.Queue, tb table.Table) {
			var all []table.Item
			for n := range 26 {
				all = append(all, item(strings.Repeat("b", n+1), 300))
			}
			must(tb.PutAll(ctx, all))
		}, Usage{Requests: 2, WriteUnits: 26}},
		{"a transaction of a write and a check", func(_ queue.Queue, tb table.Table) {
			a := item("t", 300)
			must(tb.Transact(ctx, []table.Op{{Put: &a}, {Check: &table.Key{PK: "p", SK: "none"}, Cond: table.Cond{Absent: true}}}))
		}, Usage{Requests: 1, WriteUnits: 4}},
		{"a transaction of one write", func(_ queue.Queue, tb table.Table) {
			a := item("t", 300)
			must(tb.Transact(ctx, []table.Op{{Put: &a}}))
		}, Usage{Requests: 1, WriteUnits: 1}},
		{"a deletion", func(_ queue.Queue, tb table.Table) { must(tb.Delete(ctx, table.Key{PK: "p", SK: "t"}, table.Cond{})) }, Usage{Requests: 1, WriteUnits: 1}},
		{"an item that is not there", func(_ queue.Queue, tb table.Table) {
			_, err := tb.Get(ctx, table.Key{PK: "p", SK: "none"})
			must(err)
		}, Usage{Requests: 1, ReadUnits: 1}},
		{"several items", func(_ queue.Queue, tb table.Table) {
			_, err := tb.Get(ctx, table.Key{PK: "p", SK: "a"}, large.Key, table.Key{PK: "p", SK: "none"})
			must(err)
		}, Usage{Requests: 1, ReadUnits: 3}},
		{"a query of small items", func(_ queue.Queue, tb table.Table) {
			_, _, err := tb.Query(ctx, table.Range{PK: "p", From: "b", To: "bbbb"})
			must(err)
		}, Usage{Requests: 1, ReadUnits: 1}},
		{"the index", func(_ queue.Queue, tb table.Table) {
			_, err := tb.Due(ctx, "s", time.Now(), 10)
			must(err)
		}, Usage{Requests: 1, ReadUnits: 0.5}},
		{"a message of 64 KiB and one more byte", func(q queue.Queue, _ table.Table) {
			must(q.Send(ctx, queue.Message{Body: strings.Repeat("x", 64<<10+1)}))
		}, Usage{Requests: 1, PayloadUnits: 2}},
		{"eleven messages at once", func(q queue.Queue, _ table.Table) {
			for _, err := range q.SendBatch(ctx, make11()) {
				must(err)
			}
		}, Usage{Requests: 2, PayloadUnits: 2}},
		{"a poll, a change and a deletion", func(q queue.Queue, _ table.Table) {
			got, err := q.Receive(ctx, queue.ReceiveOptions{Max: 1})
			must(err)
			must(q.ChangeVisibility(ctx, got[0].Handle, time.Minute))
			must(q.Delete(ctx, got[0].Handle))
		}, Usage{Requests: 3, PayloadUnits: 4}},
	} {
		counter := NewEstimate()
		c.call(EstimateQueue(counter, e.Queue(queue.Normal)), EstimateTable(counter, e.Table()))
		if got := counter.Snapshot().Service(""); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	counter := NewEstimate()
	if _, err := EstimateQueue(counter, e.Queue(queue.Low)).Receive(ctx, queue.ReceiveOptions{Max: 1}); err != nil || len(counter.Snapshot()) > 0 {
		t.Errorf("a poll that brings nothing: %v, %v", counter.Snapshot(), err)
	}
}

func make11() []queue.Message {
	all := make([]queue.Message, 11)
	for i := range all {
		all[i].Body = "x"
	}
	return all
}

func TestPriceOfAThousandDeliveries(t *testing.T) {
	s := Snapshot{
		{Service: "SQS", Operation: "SendMessage"}:  {Requests: 30, PayloadUnits: 40},
		{Service: "DynamoDB", Operation: "PutItem"}: {Requests: 50, WriteUnits: 80},
		{Service: "DynamoDB", Operation: "Query"}:   {Requests: 5, ReadUnits: 100},
	}
	p := PriceOf(s, 1000)
	if want := "$0.079 per million (SQS $0.016, writes $0.050, reads $0.013)"; p.String() != want {
		t.Errorf("%s, want %s", p, want)
	}
}
