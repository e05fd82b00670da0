package cost_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"fedpost/internal/testkit/cost"
	"fedpost/internal/testkit/faults/wire"

	"fedpost/internal/testkit/engines/awstest"
)

var ctx = context.Background()

// serve answers with fixed capacities. A request that does not ask for its capacity
// fails the test.
func serve(t *testing.T) func(operation string, body []byte) wire.Answer {
	capacity := func(units float64) map[string]any { return map[string]any{"TableName": "t", "CapacityUnits": units} }
	return func(operation string, body []byte) wire.Answer {
		if strings.HasSuffix(operation, "Item") && !strings.Contains(string(body), `"ReturnConsumedCapacity":"TOTAL"`) {
			t.Errorf("%s does not ask for its capacity: %s", operation, body)
		}
		switch operation {
		case "PutItem":
			if strings.Contains(string(body), "ConditionExpression") {
				return wire.Answer{Status: 400, Error: "ConditionalCheckFailedException"}
			}
			return wire.Answer{Body: map[string]any{"ConsumedCapacity": capacity(3)}}
		case "GetItem":
			return wire.Answer{Body: map[string]any{"ConsumedCapacity": capacity(0.5)}}
		case "BatchWriteItem":
			return wire.Answer{Body: map[string]any{"ConsumedCapacity": []any{capacity(4), capacity(6)}}}
		case "TransactWriteItems":
			return wire.Answer{Status: 400, Error: "TransactionCanceledException", Body: map[string]any{
				"CancellationReasons": []any{map[string]any{"Code": "None"}, map[string]any{"Code": "ConditionalCheckFailed"}},
			}}
		case "ReceiveMessage":
			return wire.Answer{Body: map[string]any{"Messages": []any{
				map[string]any{"Body": strings.Repeat("x", 100<<10)}, map[string]any{"Body": strings.Repeat("y", 30<<10)},
			}}}
		}
		return wire.Answer{}
	}
}

func key() map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "x"}}
}

func TestCapacityIsCountedPerOperation(t *testing.T) {
	c := cost.NewMeter()
	cfg := wire.Start(t, serve(t))
	cfg.APIOptions = append(cfg.APIOptions, c.Install)
	client := dynamodb.NewFromConfig(cfg)
	table := aws.String("t")
	in := &dynamodb.PutItemInput{TableName: table, Item: key()}
	for range 2 {
		if _, err := client.PutItem(ctx, in); err != nil {
			t.Fatal(err)
		}
	}
	if in.ReturnConsumedCapacity != "" {
		t.Error("the caller's input was changed")
	}
	before := c.Snapshot()
	if _, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: table, Key: key()}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
		RequestItems: map[string][]types.WriteRequest{"t": {{DeleteRequest: &types.DeleteRequest{Key: key()}}}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: table, Item: key(), ConditionExpression: aws.String("attribute_not_exists(pk)"),
	}); err == nil {
		t.Fatal("the condition held")
	}
	put := &types.Put{TableName: table, Item: key()}
	if _, err := client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{{Put: put}, {Put: put}},
	}); err == nil {
		t.Fatal("the transaction went through")
	}
	op := func(name string) cost.Op { return cost.Op{Service: "DynamoDB", Operation: name} }
	want := cost.Snapshot{
		op("PutItem"):            {Requests: 3, Failures: 1, WriteUnits: 7},
		op("GetItem"):            {Requests: 1, ReadUnits: 0.5},
		op("BatchWriteItem"):     {Requests: 1, WriteUnits: 10},
		op("TransactWriteItems"): {Requests: 1, Failures: 1, WriteUnits: 4},
	}
	if diff := cmp.Diff(want, c.Snapshot()); diff != "" {
		t.Error(diff)
	}
	want[op("PutItem")] = cost.Usage{Requests: 1, Failures: 1, WriteUnits: 1}
	if diff := cmp.Diff(want, c.Snapshot().Since(before)); diff != "" {
		t.Error("since the snapshot: " + diff)
	}
	if got := c.Snapshot().Service("DynamoDB"); got.Requests != 6 || got.WriteUnits != 21 {
		t.Errorf("in all %+v", got)
	}
}

func TestPayloadIsCountedIn64KiB(t *testing.T) {
	c := cost.NewMeter()
	cfg := wire.Start(t, serve(t))
	cfg.APIOptions = append(cfg.APIOptions, c.Install)
	client := sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.DisableMessageChecksumValidation = true })
	url := aws.String("http://queue")
	send := func(bytes int, attributes map[string]sqstypes.MessageAttributeValue) {
		t.Helper()
		body := strings.Repeat("x", bytes)
		if _, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body, MessageAttributes: attributes}); err != nil {
			t.Fatal(err)
		}
	}
	send(1, nil)
	send(64<<10, nil)
	send(64<<10+1, nil)
	send(64<<10-10, map[string]sqstypes.MessageAttributeValue{"n": {DataType: aws.String("String"), StringValue: aws.String("four")}})
	big := strings.Repeat("x", 100<<10)
	if _, err := client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: url, Entries: []sqstypes.SendMessageBatchRequestEntry{
		{Id: aws.String("1"), MessageBody: &big}, {Id: aws.String("2"), MessageBody: &big},
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: aws.String("h")}); err != nil {
		t.Fatal(err)
	}
	op := func(name string) cost.Op { return cost.Op{Service: "SQS", Operation: name} }
	want := cost.Snapshot{
		op("SendMessage"):      {Requests: 4, PayloadUnits: 1 + 1 + 2 + 2},
		op("SendMessageBatch"): {Requests: 1, PayloadUnits: 4},
		op("ReceiveMessage"):   {Requests: 1, PayloadUnits: 3},
		op("DeleteMessage"):    {Requests: 1, PayloadUnits: 1},
	}
	if diff := cmp.Diff(want, c.Snapshot()); diff != "" {
		t.Error(diff)
	}
}

func TestRetriesOfTheSDKAreCounted(t *testing.T) {
	c := cost.NewMeter()
	cfg := wire.Start(t, serve(t))
	faulty := wire.NewWire(wire.Fault{Request: 1, Times: 2, Kind: wire.Throttle})
	cfg.APIOptions = append(cfg.APIOptions, c.Install, faulty.Install)
	if _, err := dynamodb.NewFromConfig(cfg).GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("t"), Key: key()}); err != nil {
		t.Fatal(err)
	}
	want := cost.Snapshot{{Service: "DynamoDB", Operation: "GetItem"}: {Requests: 3, Failures: 2, ReadUnits: 0.5}}
	if diff := cmp.Diff(want, c.Snapshot()); diff != "" {
		t.Error(diff)
	}
}

func TestTablePerRecipient(t *testing.T) {
	s := cost.Snapshot{
		{Service: "SQS", Operation: "SendMessage"}:  {Requests: 1, PayloadUnits: 2},
		{Service: "DynamoDB", Operation: "PutItem"}: {Requests: 3, WriteUnits: 5},
	}
	got := s.Per(50, "recipient")
	for _, want := range []string{"per recipient", "DynamoDB PutItem", "0.0600", "0.1000", "all", "0.0800"} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
}

// TestCapacityOfARealServer: a real server must report the units that AWS documents.
func TestCapacityOfARealServer(t *testing.T) {
	awstest.Require(t, "DYNAMODB")
	name, c := awstest.TableName(t), cost.NewMeter()
	cfg := awstest.Config(t)
	cfg.APIOptions = append(cfg.APIOptions, c.Install)
	client := awstest.DynamoDBOf(t, cfg)
	item := func(sk string, bytes int) map[string]types.AttributeValue {
		return map[string]types.AttributeValue{
			"pk": &types.AttributeValueMemberS{Value: "p"}, "sk": &types.AttributeValueMemberS{Value: sk},
			"data": &types.AttributeValueMemberB{Value: make([]byte, bytes)},
		}
	}
	put := func(sk string, bytes int) {
		t.Helper()
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: item(sk, bytes)}); err != nil {
			t.Fatal(err)
		}
	}
	put("small", 10)
	put("large", 2500)
	if _, err := client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: &types.Put{TableName: &name, Item: item("a", 10)}}, {Put: &types.Put{TableName: &name, Item: item("b", 10)}},
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &name, ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: "p"}, "sk": &types.AttributeValueMemberS{Value: "small"},
	}}); err != nil {
		t.Fatal(err)
	}
	op := func(name string) cost.Op { return cost.Op{Service: "DynamoDB", Operation: name} }
	want := cost.Snapshot{
		op("PutItem"):            {Requests: 2, WriteUnits: 1 + 3},
		op("TransactWriteItems"): {Requests: 1, WriteUnits: 4},
		op("GetItem"):            {Requests: 1, ReadUnits: 1},
	}
	if diff := cmp.Diff(want, c.Snapshot()); diff != "" {
		t.Error(diff)
	}
}
