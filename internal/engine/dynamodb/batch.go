package dynamodb

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"fedpost/internal/engine/batches"
	"fedpost/internal/engine/table"
)

// Limits of batches.
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html
const (
	maxBatchGet   = 100
	maxBatchWrite = 25

	// maxBatchBytes is a quarter of what DynamoDB takes: a request of 10 MB may
	// not be through before its time-out.
	maxBatchBytes = 4 << 20

	// parallel is how many batches are under way at once.
	parallel = 4
)

func (t *Table) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	if err := table.CheckAll(keys); err != nil {
		return nil, err
	}
	// DynamoDB refuses a batch that names a key twice.
	distinct := make(map[table.Key]bool, len(keys))
	for _, k := range keys {
		distinct[k] = true
	}
	got := make(map[table.Key]table.Item, len(distinct))
	for some := range slices.Chunk(slices.Collect(maps.Keys(distinct)), maxBatchGet) {
		if err := t.getBatch(ctx, some, got); err != nil {
			return nil, err
		}
	}
	return got, nil
}

func (t *Table) getBatch(ctx context.Context, keys []table.Key, got map[table.Key]table.Item) error {
	if len(keys) == 1 {
		return t.getOne(ctx, keys[0], got)
	}
	ask := types.KeysAndAttributes{ConsistentRead: aws.Bool(true)}
	for _, k := range keys {
		ask.Keys = append(ask.Keys, encodeKey(k))
	}
	what := fmt.Sprintf("get %d items", len(keys))
	return t.again(ctx, what, func() (bool, error) {
		out, err := t.getItems(ctx, &dynamodb.BatchGetItemInput{
			RequestItems: map[string]types.KeysAndAttributes{t.name: ask},
		})
		if err != nil {
			return false, fmt.Errorf("%s: %w", what, err)
		}
		for _, list := range out.Responses {
			items, err := decodeAll(list)
			if err != nil {
				return false, fmt.Errorf("%s: %w", what, err)
			}
			for _, it := range items {
				got[it.Key] = it
			}
		}
		ask.Keys = nil
		for _, rest := range out.UnprocessedKeys {
			ask.Keys = append(ask.Keys, rest.Keys...)
		}
		return len(ask.Keys) == 0, nil
	})
}

func (t *Table) getOne(ctx context.Context, k table.Key, got map[table.Key]table.Item) error {
	out, err := t.getItem(ctx, &dynamodb.GetItemInput{TableName: &t.name, Key: encodeKey(k), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return fmt.Errorf("get %s %s: %w", k.PK, k.SK, err)
	}
	if len(out.Item) == 0 {
		return nil
	}
	it, err := decode(out.Item)
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	got[k] = it
	return nil
}

func (t *Table) PutAll(ctx context.Context, items []table.Item) error {
	if err := table.CheckAll(items); err != nil {
		return err
	}
	if len(items) == 1 {
		return t.Put(ctx, items[0], table.Cond{})
	}
	return writeAll(ctx, t, "put", items, table.Item.Size, func(it table.Item) types.WriteRequest {
		return types.WriteRequest{PutRequest: &types.PutRequest{Item: encode(it)}}
	})
}

func (t *Table) DeleteAll(ctx context.Context, keys []table.Key) error {
	if err := table.CheckAll(keys); err != nil {
		return err
	}
	if len(keys) == 1 {
		return t.Delete(ctx, keys[0], table.Cond{})
	}
	size := func(k table.Key) int { return len(k.PK) + len(k.SK) }
	return writeAll(ctx, t, "delete", keys, size, func(k table.Key) types.WriteRequest {
		return types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: encodeKey(k)}}
	})
}

// writeAll sends the writes of all in batches, some at a time.
func writeAll[T any](ctx context.Context, t *Table, verb string, all []T, size func(T) int, request func(T) types.WriteRequest) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(parallel)
	for some := range batches.Of(all, maxBatchWrite, maxBatchBytes, size) {
		batch := make([]types.WriteRequest, len(some))
		for i, one := range some {
			batch[i] = request(one)
		}
		work.Go(func() error { return t.writeBatch(ctx, verb, batch) })
	}
	return work.Wait()
}

func (t *Table) writeBatch(ctx context.Context, verb string, batch []types.WriteRequest) error {
	what := fmt.Sprintf("%s %d items", verb, len(batch))
	return t.again(ctx, what, func() (bool, error) {
		out, err := t.writeItems(ctx, &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{t.name: batch},
		})
		if err != nil {
			return false, fmt.Errorf("%s: %w", what, err)
		}
		batch = nil
		for _, rest := range out.UnprocessedItems {
			batch = append(batch, rest...)
		}
		return len(batch) == 0, nil
	})
}
