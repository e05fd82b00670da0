// Package dynamodb is the table port on Amazon DynamoDB.
//
// The adapter does what the SDK leaves to its users. It cuts requests to the
// allowed size, sends unprocessed items again, reads why a transaction was
// cancelled, and recognizes a write that succeeded although its answer was
// lost and the SDK's retry then found the write's own result.
//
// The table has a partition key pk and a sort key sk, time to live on expires,
// and the sparse index "due" on dueShard and dueAt with all attributes.
package dynamodb

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"fedpost/internal/engine/awssdk"
	"fedpost/internal/engine/table"
)

// The names of the attributes; template.yaml repeats them.
const (
	PK       = "pk"
	SK       = "sk"
	Fence    = "fence"
	Data     = "data"
	Expires  = "expires"  // epoch seconds: DynamoDB's TTL knows nothing finer
	DueShard = "dueShard" // with DueAt the key of DueIndex
	DueAt    = "dueAt"    // epoch milliseconds

	// DueIndex is the name of the index.
	DueIndex = "due"
)

type Table struct {
	name string

	getItem    call[dynamodb.GetItemInput, dynamodb.GetItemOutput]
	getItems   call[dynamodb.BatchGetItemInput, dynamodb.BatchGetItemOutput]
	query      call[dynamodb.QueryInput, dynamodb.QueryOutput]
	putItem    call[dynamodb.PutItemInput, dynamodb.PutItemOutput]
	deleteItem call[dynamodb.DeleteItemInput, dynamodb.DeleteItemOutput]
	writeItems call[dynamodb.BatchWriteItemInput, dynamodb.BatchWriteItemOutput]
	transact   call[dynamodb.TransactWriteItemsInput, dynamodb.TransactWriteItemsOutput]

	// pause waits between those tries that the SDK does not make itself.
	pause func(ctx context.Context, try int) error
}

// call is an operation of the client. A field of the client's type would link all of its
// operations into a program that calls methods by their names, as the command line does, and
// make that program 2 MB larger.
type call[In, Out any] = func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error)

var _ table.Table = (*Table)(nil)

func New(client *dynamodb.Client, name string) *Table {
	return &Table{
		name: name, pause: pause,
		getItem: client.GetItem, getItems: client.BatchGetItem, query: client.Query, putItem: client.PutItem,
		deleteItem: client.DeleteItem, writeItems: client.BatchWriteItem, transact: client.TransactWriteItems,
	}
}

// tries is how often a request is sent that DynamoDB throttles or rejects for
// contention.
const tries = 8

// again calls f until f reports that it is done, with growing pauses in between.
func (t *Table) again(ctx context.Context, what string, f func() (done bool, err error)) error {
	for try := 1; ; try++ {
		done, err := f()
		if done || err != nil {
			return err
		}
		if try == tries {
			return fmt.Errorf("%s: DynamoDB refused it %d times: the table is throttled or contended", what, tries)
		}
		if err := t.pause(ctx, try); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// ceilSeconds and floorSeconds are a time in epoch seconds. An item's expiry is
// rounded up and the time compared with it is rounded down, so that no item
// counts as expired early.
func ceilSeconds(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}

func floorSeconds(t time.Time) int64 { return t.Unix() }

// pause waits before the next try: 25, 50, 100 ms … up to 2 s, with full jitter,
// so that writers that collided do not collide again.
func pause(ctx context.Context, try int) error {
	return awssdk.Wait(ctx, rand.N(min(25*time.Millisecond<<min(try, 10), 2*time.Second))+time.Millisecond)
}
