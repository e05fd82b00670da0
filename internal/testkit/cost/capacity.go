package cost

import (
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// askForCapacity returns a copy of the input in that asks DynamoDB to report the
// consumed capacity. The caller's input stays unchanged.
func askForCapacity(in any) any {
	const total = types.ReturnConsumedCapacityTotal
	switch p := in.(type) {
	case *dynamodb.GetItemInput:
		c := *p
		c.ReturnConsumedCapacity = total
		return &c
	case *dynamodb.BatchGetItemInput:
		c := *p
		c.ReturnConsumedCapacity = total
		return &c
	case *dynamodb.QueryInput:
		c := *p
		c.ReturnConsumedCapacity = total
		return &c
	case *dynamodb.PutItemInput:
		c := *p
		c.ReturnConsumedCapacity = total
		return &c
	case *dynamodb.UpdateItemInput:
		c := *p
		c.ReturnConsumedCapacity = total
		return &c
	case *dynamodb.DeleteItemInput:
		c := *p
		c.ReturnConsumedCapacity = total
		return &c
	case *dynamodb.BatchWriteItemInput:
		c := *p
		c.ReturnConsumedCapacity = total
		return &c
	case *dynamodb.TransactWriteItemsInput:
		c := *p
		c.ReturnConsumedCapacity = total
		return &c
	}
	return in
}

// unitsOf returns the capacity units in an answer: read units or write units,
// never both, because no operation both reads and writes.
func unitsOf(result any) (read, write float64) {
	switch r := result.(type) {
	case *dynamodb.GetItemOutput:
		return one(r.ConsumedCapacity), 0
	case *dynamodb.BatchGetItemOutput:
		return all(r.ConsumedCapacity), 0
	case *dynamodb.QueryOutput:
		return one(r.ConsumedCapacity), 0
	case *dynamodb.PutItemOutput:
		return 0, one(r.ConsumedCapacity)
	case *dynamodb.UpdateItemOutput:
		return 0, one(r.ConsumedCapacity)
	case *dynamodb.DeleteItemOutput:
		return 0, one(r.ConsumedCapacity)
	case *dynamodb.BatchWriteItemOutput:
		return 0, all(r.ConsumedCapacity)
	case *dynamodb.TransactWriteItemsOutput:
		return 0, all(r.ConsumedCapacity)
	}
	return 0, 0
}

// leastOf returns the minimum of write units that a request costs. DynamoDB Local
// reports several items of a transaction as one if they cost the same; on AWS every
// item of a transaction costs two units or more.
func leastOf(in any) (write float64) {
	if p, ok := in.(*dynamodb.TransactWriteItemsInput); ok {
		return 2 * float64(len(p.TransactItems))
	}
	return 0
}

// unitsOfFailure returns the write units billed for a failed write: one for an item
// whose condition did not hold, two for each item of a transaction.
func unitsOfFailure(err error) float64 {
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		return 1
	}
	var cancelled *types.TransactionCanceledException
	if errors.As(err, &cancelled) {
		return 2 * float64(len(cancelled.CancellationReasons))
	}
	return 0
}

func one(c *types.ConsumedCapacity) float64 {
	if c == nil {
		return 0
	}
	return aws.ToFloat64(c.CapacityUnits)
}

func all(cs []types.ConsumedCapacity) float64 {
	var sum float64
	for _, c := range cs {
		sum += one(&c)
	}
	return sum
}
