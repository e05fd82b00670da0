package dynamodb_test

import (
	"errors"
	"testing"

	"fedpost/internal/engine/dynamodb"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/engines/awstest"
	"fedpost/internal/testkit/faults/wire"
)

// On a real server, each kind of fault hits each operation's first request: the
// SDK's retry or the adapter's own must complete the write, once.
func TestWritesSurviveOneBrokenRequest(t *testing.T) {
	awstest.Require(t, "DYNAMODB")
	name := awstest.TableName(t)
	item := func(sk, fence string) table.Item {
		return table.Item{Key: table.Key{PK: t.Name(), SK: sk}, Fence: fence}
	}
	for _, kind := range []wire.Kind{wire.FailBefore, wire.Timeout, wire.DropResponse, wire.Throttle, wire.Break} {
		t.Run(kind.String(), func(t *testing.T) {
			for _, operation := range []string{"PutItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem", "GetItem", "Query"} {
				faulty := wire.NewWire(wire.Fault{Service: "DynamoDB", Operation: operation, Request: 1, Kind: kind})
				cfg := awstest.Config(t)
				cfg.APIOptions = append(cfg.APIOptions, faulty.Install)
				sound, tab := dynamodb.New(awstest.DynamoDB(t), name), dynamodb.New(awstest.DynamoDBOf(t, cfg), name)
				a, b := item("a "+operation, "1"), item("b "+operation, "1")
				if err := sound.PutAll(t.Context(), []table.Item{a, b}); err != nil {
					t.Fatal(err)
				}
				a2, b2 := item(a.SK, "2"), item(b.SK, "2")
				var err error
				switch operation {
				case "PutItem":
					err = errors.Join(tab.Put(t.Context(), a2, table.Fenced("1")), tab.Put(t.Context(), b2, table.Fenced("1")))
				case "DeleteItem":
					err = tab.Delete(t.Context(), a.Key, table.Fenced("1"))
				case "TransactWriteItems":
					err = tab.Transact(t.Context(), []table.Op{{Put: &a2, Cond: table.Fenced("1")}, {Put: &b2, Cond: table.Fenced("1")}})
				case "BatchWriteItem":
					err = tab.PutAll(t.Context(), []table.Item{a2, b2})
				case "GetItem":
					_, err = tab.Get(t.Context(), a.Key)
				case "Query":
					_, _, err = tab.Query(t.Context(), table.Range{PK: a.PK})
				}
				if err != nil {
					t.Errorf("%s: %v", operation, err)
				}
				if faulty.Fired() != 1 {
					t.Errorf("%s: %d faults fired", operation, faulty.Fired())
				}
				got, err := sound.Get(t.Context(), a.Key, b.Key)
				if err != nil {
					t.Fatal(err)
				}
				switch operation {
				case "PutItem", "TransactWriteItems", "BatchWriteItem":
					if got[a.Key].Fence != "2" || got[b.Key].Fence != "2" {
						t.Errorf("%s: left %v", operation, got)
					}
				case "DeleteItem":
					if len(got) != 1 {
						t.Errorf("%s: left %v", operation, got)
					}
				}
			}
		})
	}
}
