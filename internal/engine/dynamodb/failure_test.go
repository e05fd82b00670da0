package dynamodb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"fedpost/internal/testkit/faults/wire"

	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/property"
)

func open(t *testing.T, serve func(operation string, body []byte) wire.Answer, fs ...wire.Fault) *Table {
	cfg := wire.Start(t, serve)
	cfg.APIOptions = append(cfg.APIOptions, wire.NewWire(fs...).Install)
	tab := New(dynamodb.NewFromConfig(cfg), "t")
	tab.pause = func(context.Context, int) error { return nil }
	return tab
}

// wireItem is a stored item as DynamoDB answers it.
func wireItem(pk, sk, fence string) map[string]any {
	return map[string]any{PK: map[string]string{"S": pk}, SK: map[string]string{"S": sk}, Fence: map[string]string{"S": fence}}
}

func conflictWith(item map[string]any) wire.Answer {
	a := wire.Answer{Status: 400, Error: "ConditionalCheckFailedException", Body: map[string]any{}}
	if item != nil {
		a.Body["Item"] = item
	}
	return a
}

var key = table.Key{PK: "p", SK: "s"}

// store is one item with compare-and-swap, as DynamoDB keeps it.
type store struct {
	fence  string
	exists bool
	writes int
}

func (s *store) serve(operation string, body []byte) wire.Answer {
	var in struct {
		Item                      map[string]map[string]string
		ConditionExpression       string
		ExpressionAttributeValues map[string]map[string]string
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return wire.Answer{Status: 400, Error: "SerializationException"}
	}
	want := in.ExpressionAttributeValues[":fence"]["S"]
	if in.ConditionExpression != "" && (!s.exists || s.fence != want) {
		if !s.exists {
			return conflictWith(nil)
		}
		return conflictWith(wireItem("p", "s", s.fence))
	}
	s.writes++
	s.exists = operation == "PutItem"
	s.fence = in.Item[Fence]["S"]
	return wire.Answer{}
}

// After a lost answer the SDK sends a write again, and the second attempt finds
// the first attempt's item. The adapter must report success, not a conflict.
func TestRetryThatMeetsItsOwnWorkIsNoConflict(t *testing.T) {
	lost := wire.Fault{Request: 1, Kind: wire.DropResponse}
	t.Run("put", func(t *testing.T) {
		s := &store{fence: "old", exists: true}
		err := open(t, s.serve, lost).Put(t.Context(), table.Item{Key: key, Fence: "new"}, table.Fenced("old"))
		if err != nil || s.writes != 1 || s.fence != "new" {
			t.Errorf("error %v, %d writes, fence %s", err, s.writes, s.fence)
		}
	})
	t.Run("delete", func(t *testing.T) {
		s := &store{fence: "old", exists: true}
		err := open(t, s.serve, lost).Delete(t.Context(), key, table.Fenced("old"))
		if err != nil || s.writes != 1 || s.exists {
			t.Errorf("error %v, %d writes, exists: %t", err, s.writes, s.exists)
		}
	})
}

func TestRetryThatMeetsAStrangersWorkIsAConflict(t *testing.T) {
	timeout := wire.Fault{Request: 1, Kind: wire.Timeout}
	for name, c := range map[string]struct {
		do     func(*Table) error
		faults []wire.Fault
	}{
		"put, in doubt": {func(tab *Table) error {
			return tab.Put(t.Context(), table.Item{Key: key, Fence: "new"}, table.Fenced("old"))
		}, []wire.Fault{timeout}},
		"delete, in doubt": {func(tab *Table) error { return tab.Delete(t.Context(), key, table.Fenced("old")) }, []wire.Fault{timeout}},
		// Without a retry after a lost answer, even an item with an equal fence
		// is another writer's.
		"put with the fence that is there": {func(tab *Table) error {
			return tab.Put(t.Context(), table.Item{Key: key, Fence: "stranger"}, table.Fenced("old"))
		}, nil},
		"put after a throttled attempt": {func(tab *Table) error {
			return tab.Put(t.Context(), table.Item{Key: key, Fence: "stranger"}, table.Fenced("old"))
		}, []wire.Fault{{Request: 1, Kind: wire.Throttle}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &store{fence: "stranger", exists: true}
			err := c.do(open(t, s.serve, c.faults...))
			var conflict *table.ConflictError
			if !errors.As(err, &conflict) || conflict.Found == nil || conflict.Found.Fence != "stranger" || conflict.Key != key {
				t.Errorf("error %v, want a conflict with the stranger's item", err)
			}
		})
	}
	t.Run("delete of what is gone, not in doubt", func(t *testing.T) {
		err := open(t, (&store{}).serve).Delete(t.Context(), key, table.Fenced("old"))
		var conflict *table.ConflictError
		if !errors.As(err, &conflict) || conflict.Found != nil {
			t.Errorf("error %v, want a conflict with nothing", err)
		}
	})
}

// cancelled is a transaction's answer with a reason per item.
func cancelled(codes ...string) wire.Answer {
	var reasons []any
	for _, c := range codes {
		r := map[string]any{"Code": c}
		if c == "ConditionalCheckFailed" {
			r["Item"] = wireItem("p", "found", "f")
		}
		reasons = append(reasons, r)
	}
	return wire.Answer{Status: 400, Error: "TransactionCanceledException", Body: map[string]any{"CancellationReasons": reasons}}
}

func twoOps() []table.Op {
	return []table.Op{
		{Put: &table.Item{Key: table.Key{PK: "p", SK: "1"}}, Cond: table.Fenced("a")},
		{Check: &table.Key{PK: "p", SK: "holds anyway"}},
		{Delete: &table.Key{PK: "p", SK: "2"}, Cond: table.Fenced("b")},
	}
}

func TestTransactionGoesOnAfterContention(t *testing.T) {
	for _, reason := range []string{"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"} {
		requests := 0
		err := open(t, func(string, []byte) wire.Answer {
			if requests++; requests < 3 {
				return cancelled("None", reason)
			}
			return wire.Answer{}
		}).Transact(t.Context(), twoOps())
		if err != nil || requests != 3 {
			t.Errorf("%s: error %v after %d requests, want success at the third", reason, err, requests)
		}
	}
}

func TestTransactionThatIsContendedForGoodFails(t *testing.T) {
	requests := 0
	err := open(t, func(string, []byte) wire.Answer {
		requests++
		return cancelled("TransactionConflict", "None")
	}).Transact(t.Context(), twoOps())
	if err == nil || errors.Is(err, table.ErrConflict) || requests != tries {
		t.Errorf("error %v after %d requests: want one that is no conflict after %d", err, requests, tries)
	}
}

func TestConditionOutweighsContention(t *testing.T) {
	requests := 0
	err := open(t, func(string, []byte) wire.Answer {
		requests++
		return cancelled("TransactionConflict", "ConditionalCheckFailed")
	}).Transact(t.Context(), twoOps())
	var conflict *table.ConflictError
	if !errors.As(err, &conflict) || requests != 1 {
		t.Fatalf("error %v after %d requests", err, requests)
	}
	// The second item on the wire is the third op, because a check that always
	// holds is not sent.
	if conflict.Key.SK != "2" || conflict.Found == nil || conflict.Found.SK != "found" {
		t.Errorf("conflict at %v with %v", conflict.Key, conflict.Found)
	}
}

func TestTransactionThatIsWrongFails(t *testing.T) {
	err := open(t, func(string, []byte) wire.Answer { return cancelled("None", "ValidationError") }).Transact(t.Context(), twoOps())
	if err == nil || errors.Is(err, table.ErrConflict) || !strings.Contains(err.Error(), "ValidationError") {
		t.Errorf("error %v", err)
	}
}

// An item that another writer's transaction holds is free again in a moment.
func TestSingleWriteWaitsForATransaction(t *testing.T) {
	requests := 0
	tab := open(t, func(string, []byte) wire.Answer {
		if requests++; requests < 4 {
			return wire.Answer{Status: 400, Error: "TransactionConflictException"}
		}
		return wire.Answer{}
	})
	if err := tab.Put(t.Context(), table.Item{Key: key, Fence: "f"}, table.Fenced("e")); err != nil || requests != 4 {
		t.Errorf("error %v after %d requests", err, requests)
	}
}

// Writes that DynamoDB leaves unprocessed are sent until it takes them, each
// once, 25 at a time.
func TestUnprocessedItemsAreSentAgain(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 80).Draw(rt, "items")
		takes := rapid.IntRange(4, 25).Draw(rt, "takes at once")
		var items []table.Item
		for i := range n {
			items = append(items, table.Item{Key: table.Key{PK: "p", SK: fmt.Sprintf("%03d", i)}})
		}
		var got []string
		lock := make(chan struct{}, 1)
		tab := open(t, func(_ string, body []byte) wire.Answer {
			lock <- struct{}{}
			defer func() { <-lock }()
			var in struct {
				RequestItems map[string][]struct {
					PutRequest struct {
						Item map[string]map[string]string
					}
				}
			}
			if err := json.Unmarshal(body, &in); err != nil || len(in.RequestItems["t"]) > maxBatchWrite {
				return wire.Answer{Status: 400, Error: "ValidationException"}
			}
			var left []any
			for i, w := range in.RequestItems["t"] {
				if i >= takes {
					left = append(left, w)
					continue
				}
				got = append(got, w.PutRequest.Item[SK]["S"])
			}
			if left == nil {
				return wire.Answer{}
			}
			return wire.Answer{Body: map[string]any{"UnprocessedItems": map[string]any{"t": left}}}
		})
		if err := tab.PutAll(t.Context(), items); err != nil {
			rt.Fatal(err)
		}
		slices.Sort(got)
		var want []string
		for _, it := range items {
			want = append(want, it.SK)
		}
		if !slices.Equal(got, want) {
			rt.Errorf("wrote %q, want %q", got, want)
		}
	})
}

func TestTableThatTakesNothingIsAnError(t *testing.T) {
	tab := open(t, func(_ string, body []byte) wire.Answer {
		var in struct{ RequestItems map[string]any }
		if err := json.Unmarshal(body, &in); err != nil {
			return wire.Answer{Status: 400, Error: "SerializationException"}
		}
		return wire.Answer{Body: map[string]any{"UnprocessedItems": in.RequestItems}}
	})
	err := tab.DeleteAll(t.Context(), []table.Key{{PK: "p", SK: "1"}, {PK: "p", SK: "2"}})
	if err == nil || !strings.Contains(err.Error(), "throttled") {
		t.Errorf("error %v, want one that says why", err)
	}
}

func TestUnprocessedKeysAreAskedAgain(t *testing.T) {
	requests := 0
	tab := open(t, func(_ string, body []byte) wire.Answer {
		requests++
		var in struct {
			RequestItems map[string]struct {
				Keys           []map[string]map[string]string
				ConsistentRead bool
			}
		}
		if err := json.Unmarshal(body, &in); err != nil || !in.RequestItems["t"].ConsistentRead {
			return wire.Answer{Status: 400, Error: "ValidationException"}
		}
		asked := in.RequestItems["t"].Keys
		one := asked[0]
		answer := map[string]any{"Responses": map[string]any{"t": []any{wireItem(one[PK]["S"], one[SK]["S"], "f")}}}
		if len(asked) > 1 {
			answer["UnprocessedKeys"] = map[string]any{"t": map[string]any{"Keys": asked[1:], "ConsistentRead": true}}
		}
		return wire.Answer{Body: answer}
	})
	keys := []table.Key{{PK: "p", SK: "1"}, {PK: "p", SK: "2"}, {PK: "p", SK: "3"}}
	got, err := tab.Get(t.Context(), append(keys, keys...)...)
	if err != nil || len(got) != 3 || requests != 3 {
		t.Errorf("%d items after %d requests, error %v", len(got), requests, err)
	}
}

func TestPauseEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pause(ctx, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// An expiry, kept in whole seconds, must never count as reached early.
func TestNothingExpiresEarly(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		expires := time.Unix(rapid.Int64Range(1, 4e9).Draw(rt, "s"), rapid.Int64Range(0, 999_999_999).Draw(rt, "ns"))
		now := expires.Add(-time.Duration(rapid.Int64Range(1, 3e9).Draw(rt, "before")))
		if ceilSeconds(expires) <= floorSeconds(now) {
			rt.Errorf("%s counts as expired at %s", expires, now)
		}
		if later := expires.Add(time.Second); ceilSeconds(expires) > floorSeconds(later) {
			rt.Errorf("%s does not count as expired a second later", expires)
		}
	})
}

// A foreign or broken item is an error that names it, not a panic or a default.
func TestItemThatIsNotOursIsAnError(t *testing.T) {
	for name, attribute := range map[string]any{
		Fence: map[string]string{"N": "1"}, Data: map[string]string{"S": "x"}, Expires: map[string]string{"S": "x"},
		DueShard: map[string]string{"N": "1"},
	} {
		item := wireItem("p", "s", "f")
		item[name] = attribute
		_, err := open(t, func(string, []byte) wire.Answer {
			return wire.Answer{Body: map[string]any{"Item": item}}
		}).Get(t.Context(), key)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestBatchesOfWritesKeepTheLimits(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		var items []table.Item
		want := map[string]int{} // sizes by sort key
		for i, n := range rapid.SliceOfN(rapid.SampledFrom([]int{10, 1000, 100 << 10, table.MaxItem - 256}), 2, 80).Draw(rt, "sizes") {
			it := table.Item{Key: table.Key{PK: "p", SK: fmt.Sprint(i)}, Data: make([]byte, n)}
			items, want[it.SK] = append(items, it), it.Size()
		}
		var mu sync.Mutex
		tab := &Table{name: "t", writeItems: func(_ context.Context, in *dynamodb.BatchWriteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
			mu.Lock()
			defer mu.Unlock()
			batch, bytes := in.RequestItems["t"], 0
			for _, w := range batch {
				sk := w.PutRequest.Item[SK].(*types.AttributeValueMemberS).Value
				bytes += want[sk]
				delete(want, sk)
			}
			if len(batch) == 0 || len(batch) > maxBatchWrite || bytes > maxBatchBytes {
				rt.Errorf("a batch of %d writes and %d bytes", len(batch), bytes)
			}
			return &dynamodb.BatchWriteItemOutput{}, nil
		}}
		if err := tab.PutAll(t.Context(), items); err != nil || len(want) > 0 {
			rt.Errorf("%d of %d items are in no batch; error %v", len(want), len(items), err)
		}
	})
}
