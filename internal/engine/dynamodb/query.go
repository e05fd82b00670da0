package dynamodb

import (
	"context"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"fedpost/internal/engine/table"
)

func (t *Table) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	if r.To != "" && r.From >= r.To {
		return nil, false, nil // DynamoDB calls an empty range an error
	}
	in := &dynamodb.QueryInput{TableName: &t.name, ConsistentRead: aws.Bool(true), ScanIndexForward: aws.Bool(!r.Newest)}
	first, last := before, after
	if r.Newest {
		first, last = after, before
	}
	in.KeyConditionExpression, in.ExpressionAttributeValues = rangeCondition(r)
	items, more, err := t.page(ctx, in, r.Limit, func(it table.Item) position {
		switch {
		case it.SK < r.From:
			return first
		case r.To != "" && it.SK >= r.To:
			return last
		}
		return inside
	})
	if err != nil {
		return nil, false, fmt.Errorf("query %s from %q to %q: %w", r.PK, r.From, r.To, err)
	}
	return items, more, nil
}

// rangeCondition returns the narrowest key condition that covers r: DynamoDB
// has one condition on the sort key, knows no half-open interval and takes no
// bound that is not UTF-8, such as Prefix makes of a prefix that ends in 0x7f.
func rangeCondition(r table.Range) (*string, attributes) {
	from, to := r.From, r.To
	for !utf8.ValidString(from) {
		from = from[:len(from)-1]
	}
	if !utf8.ValidString(to) {
		to = ""
	}
	text, values := PK+" = :pk", attributes{":pk": str(r.PK)}
	switch {
	case from != "" && to != "":
		text += " AND " + SK + " BETWEEN :from AND :to"
	case from != "":
		text += " AND " + SK + " >= :from"
	case to != "":
		text += " AND " + SK + " < :to"
	}
	if from != "" {
		values[":from"] = str(from)
	}
	if to != "" {
		values[":to"] = str(to)
	}
	return &text, values
}

func (t *Table) Due(ctx context.Context, shard string, by time.Time, limit int) ([]table.Item, error) {
	items, _, err := t.page(ctx, &dynamodb.QueryInput{
		TableName: &t.name, IndexName: aws.String(DueIndex),
		KeyConditionExpression:    aws.String(DueShard + " = :shard AND " + DueAt + " <= :by"),
		ExpressionAttributeValues: attributes{":shard": str(shard), ":by": number(by.UnixMilli())},
	}, limit, func(table.Item) position { return inside })
	if err != nil {
		return nil, fmt.Errorf("query due items of %s: %w", shard, err)
	}
	return items, nil
}

// position is where an item is relative to a range: before, inside or after.
type position int

const (
	before position = iota
	inside
	after
)

// page reads a query's pages until limit items are inside the range (0: all) or
// an item comes after the range. It asks for one item more than limit, because
// only that item shows whether there are more.
func (t *Table) page(ctx context.Context, in *dynamodb.QueryInput, limit int, where func(table.Item) position) (items []table.Item, more bool, err error) {
	for {
		if limit > 0 {
			in.Limit = aws.Int32(int32(min(limit-len(items)+1, math.MaxInt32)))
		}
		out, err := t.query(ctx, in)
		if err != nil {
			return nil, false, err
		}
		got, err := decodeAll(out.Items)
		if err != nil {
			return nil, false, err
		}
		for _, it := range got {
			switch where(it) {
			case after:
				return items, false, nil
			case inside:
				if limit > 0 && len(items) == limit {
					return items, true, nil
				}
				items = append(items, it)
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return items, false, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}
