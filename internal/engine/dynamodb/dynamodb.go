// Package dynamodb is the table port on Amazon DynamoDB.
//
// What it adds to the SDK is what the SDK leaves to its users: requests cut to
// size, unprocessed rests sent again, transactions told apart by why they were
// cancelled, and writes recognised that succeeded although their answer was
// lost and the SDK's retry then met its own work.
//
// The table has a partition key pk and a sort key sk, time to live on expires,
// and the sparse index "due" on dueShard and dueAt with all attributes.
package dynamodb

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"fedpost/internal/engine/table"
)

// The attributes, which template.yaml repeats.
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

// Table is one DynamoDB table.
type Table struct {
	client *dynamodb.Client
	name   string

	// pause waits between tries that the SDK does not make itself.
	pause func(ctx context.Context, try int) error
}

var _ table.Table = (*Table)(nil)

// New returns the table with a name or ARN.
func New(client *dynamodb.Client, name string) *Table {
	return &Table{client: client, name: name, pause: pause}
}

// tries is how often work that DynamoDB turned away for now is sent.
const tries = 8

// again calls f until it reports that it is done, with a growing wait between.
func (t *Table) again(ctx context.Context, what string, f func() (done bool, err error)) error {
	for try := 1; ; try++ {
		done, err := f()
		if done || err != nil {
			return err
		}
		if try == tries {
			return fmt.Errorf("%s: DynamoDB turned it away %d times: the table is throttled or contended", what, tries)
		}
		if err := t.pause(ctx, try); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// ceilSeconds and floorSeconds are epoch seconds of a time. An item's expiry is
// rounded up and the time that a condition compares it with down, so that
// nothing counts as expired early.
func ceilSeconds(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}

func floorSeconds(t time.Time) int64 { return t.Unix() }
