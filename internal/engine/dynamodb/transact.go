package dynamodb

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"fedpost/internal/engine/table"
)

// Transact implements table.Table. A single write goes without a transaction,
// which would cost twice as much.
func (t *Table) Transact(ctx context.Context, ops []table.Op) error {
	if err := table.CheckOps(ops); err != nil {
		return err
	}
	if len(ops) == 1 && ops[0].Put != nil {
		return t.Put(ctx, *ops[0].Put, ops[0].Cond)
	}
	if len(ops) == 1 && ops[0].Delete != nil {
		return t.Delete(ctx, *ops[0].Delete, ops[0].Cond)
	}
	var items []types.TransactWriteItem
	var keys []table.Key // of items
	for _, op := range ops {
		if op.Check != nil && op.Cond.Always() {
			continue // an empty condition always holds, and DynamoDB refuses empty ones
		}
		item, key := t.transactItem(op)
		items, keys = append(items, item), append(keys, key)
	}
	if len(items) == 0 {
		return nil
	}
	return t.again(ctx, "transact", func() (bool, error) {
		// The SDK adds a token that makes its own retries of one call harmless.
		_, err := t.transact(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items})
		if err == nil {
			return true, nil
		}
		var cancelled *types.TransactionCanceledException
		if !errors.As(err, &cancelled) {
			return false, fmt.Errorf("transact: %w", err)
		}
		return false, cancellation(cancelled, keys)
	})
}

func (t *Table) transactItem(op table.Op) (types.TransactWriteItem, table.Key) {
	const old = types.ReturnValuesOnConditionCheckFailureAllOld
	e := condition(op.Cond)
	switch {
	case op.Put != nil:
		return types.TransactWriteItem{Put: &types.Put{
			TableName: &t.name, Item: encode(*op.Put),
			ConditionExpression: e.text, ExpressionAttributeValues: e.values, ReturnValuesOnConditionCheckFailure: old,
		}}, op.Put.Key
	case op.Delete != nil:
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: &t.name, Key: encodeKey(*op.Delete),
			ConditionExpression: e.text, ExpressionAttributeValues: e.values, ReturnValuesOnConditionCheckFailure: old,
		}}, *op.Delete
	default:
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: &t.name, Key: encodeKey(*op.Check),
			ConditionExpression: e.text, ExpressionAttributeValues: e.values, ReturnValuesOnConditionCheckFailure: old,
		}}, *op.Check
	}
}

// cancellation returns why a transaction was cancelled. A failed condition takes
// precedence, because another try would fail, too. Nil means that all reasons are
// temporary, such as throttling.
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
func cancellation(c *types.TransactionCanceledException, keys []table.Key) error {
	var other error
	for i, r := range c.CancellationReasons {
		switch code := aws.ToString(r.Code); code {
		case "", "None", "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded":
		case "ConditionalCheckFailed":
			found, err := foundItem(r.Item)
			if err != nil {
				return fmt.Errorf("transact: %w", err)
			}
			if i >= len(keys) {
				return fmt.Errorf("transact: a reason for item %d of %d: %w", i+1, len(keys), c)
			}
			return &table.ConflictError{Key: keys[i], Found: found}
		default:
			if other == nil {
				other = fmt.Errorf("transact: item %d: %s: %s", i+1, code, aws.ToString(r.Message))
			}
		}
	}
	if len(c.CancellationReasons) == 0 {
		return fmt.Errorf("transact: cancelled without a reason: %w", c)
	}
	return other
}
