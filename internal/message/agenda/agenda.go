// Package agenda keeps queue messages until they are due, if the queue itself cannot: for longer than a
// standard queue's longest delay, and for any delay on a FIFO queue, as SQS cannot delay its messages.
//
// A task is one queue message with a date. The scheduled function sends each due task and then drops it. If
// it dies in between, or two runs overlap, the message is sent twice; both copies have the same activity
// id, by which all work behind the queue is idempotent, so the agenda needs no lock.
package agenda

import (
	"cmp"
	"context"
	"hash/fnv"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
	"fedpost/internal/message/claimcheck"
)

// Shards is how many parts the agenda is split in, so that no partition of the due index runs hot.
const Shards = 4

// Task is a message to send when it is due.
type Task struct {
	// ID is the activity's, or that of a batch's first. A task that is put twice is one task.
	ID    string     `json:"-"`
	Queue queue.Name `json:"queue"`
	// Body is the encoded message, at most what fits an item when deflated.
	Body string `json:"body"`
	// Group and Key are the message's ordering and deduplication keys on a FIFO queue; if empty, the ID
	// and its ReleaseKey.
	Group string    `json:"group,omitempty"`
	Key   string    `json:"key,omitempty"`
	DueAt time.Time `json:"due"`
	// Forget is when the table may drop it, released or not: at least Slack after it is due.
	Forget time.Time `json:"-"`
	// Damaged is why the stored task cannot be read. Such a task has only ID and Forget besides.
	Damaged error `json:"-"`
}

// ReleaseKey is the deduplication key of the released message. The key of the message that was sent at once
// would not do: a worker may have put that message off, and a FIFO queue drops a second one for five
// minutes.
func ReleaseKey(id string) string { return "later/" + id }

// Shard is the same for all tasks of an ordering group, which are released in order.
func (t Task) Shard() int {
	name := t.Group
	name = cmp.Or(name, t.ID)
	h := fnv.New32a()
	h.Write([]byte(name))
	return int(h.Sum32() % Shards)
}

// Slack is how long a task and its payload are kept after the due time. If the schedule stops for less than
// Slack, nothing is lost.
const Slack = 30 * 24 * time.Hour

// Fit returns the encoded message body as a task can hold it: body, or a claim check for it, stored under
// id until forget.
func Fit(ctx context.Context, s claimcheck.Store, id, body string, forget time.Time) (string, error) {
	packed, err := claimcheck.Deflate(body)
	if err != nil {
		return "", err
	}
	if len(packed) <= claimcheck.PartSize {
		return body, nil
	}
	parts, err := claimcheck.Put(ctx, s, id, body, forget)
	if err != nil {
		return "", err
	}
	return message.Encode(message.Message{Ref: &message.Ref{ID: id, Parts: parts}})
}

// Store is what the agenda needs of its storage.
type Store interface {
	// PutTask stores t and replaces one of the same id.
	PutTask(ctx context.Context, t Task) error
	// DueTasks returns up to limit tasks of a shard that are due at now, the earliest first, without
	// those that were dropped before the call. A task that cannot be read has Damaged set.
	DueTasks(ctx context.Context, shard int, now time.Time, limit int) ([]Task, error)
	DropTasks(ctx context.Context, ts []Task) error
}
