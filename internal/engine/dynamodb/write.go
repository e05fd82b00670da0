package dynamodb

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"fedpost/internal/engine/awssdk"
	"fedpost/internal/engine/table"
)

func (t *Table) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	if err := it.Check(); err != nil {
		return err
	}
	e, attributes := condition(cond), encode(it)
	return t.write(ctx, "put", it.Key, func(log *awssdk.AttemptLog) error {
		_, err := t.putItem(ctx, &dynamodb.PutItemInput{
			TableName: &t.name, Item: attributes,
			ConditionExpression: e.text, ExpressionAttributeValues: e.values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}, record(log))
		return err
	}, func(found *table.Item) bool {
		// Every write has a new random fence, so an item with this fence is this
		// call's work.
		return found != nil && it.Fence != "" && found.Fence == it.Fence
	})
}

func (t *Table) Delete(ctx context.Context, k table.Key, cond table.Cond) error {
	if err := k.Check(); err != nil {
		return err
	}
	e := condition(cond)
	return t.write(ctx, "delete", k, func(log *awssdk.AttemptLog) error {
		_, err := t.deleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: &t.name, Key: encodeKey(k),
			ConditionExpression: e.text, ExpressionAttributeValues: e.values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}, record(log))
		return err
	}, func(found *table.Item) bool { return found == nil })
}

// write runs one conditional write. If the SDK retried after a lost answer, the
// retry may conflict with the call's own first attempt. ours reports whether the
// stored item is what this call wrote; if so, the write has succeeded.
func (t *Table) write(ctx context.Context, verb string, k table.Key, do func(*awssdk.AttemptLog) error, ours func(found *table.Item) bool) error {
	what := fmt.Sprintf("%s %s %s", verb, k.PK, k.SK)
	inDoubt := false
	return t.again(ctx, what, func() (bool, error) {
		var log awssdk.AttemptLog
		err := do(&log)
		if err == nil {
			return true, nil
		}
		inDoubt = inDoubt || log.EarlierMayHaveActed()
		var failed *types.ConditionalCheckFailedException
		var busy *types.TransactionConflictException
		switch {
		case errors.As(err, &busy):
			return false, nil // a transaction holds the item for a moment
		case errors.As(err, &failed):
			found, err := foundItem(failed.Item)
			if err != nil {
				return false, fmt.Errorf("%s: %w", what, err)
			}
			if inDoubt && ours(found) {
				return true, nil
			}
			return false, &table.ConflictError{Key: k, Found: found}
		}
		return false, fmt.Errorf("%s: %w", what, err)
	})
}

func foundItem(a attributes) (*table.Item, error) {
	if len(a) == 0 {
		return nil, nil
	}
	it, err := decode(a)
	return &it, err
}

func record(log *awssdk.AttemptLog) func(*dynamodb.Options) {
	return func(o *dynamodb.Options) { o.APIOptions = log.AddTo(o.APIOptions) }
}
