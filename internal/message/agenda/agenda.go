// Package agenda keeps queue messages until they are due, if the queue itself cannot: for
// longer than a standard queue's longest delay, and for any delay on a FIFO queue,
// because SQS cannot delay a single message of such a queue.
//
// A task is one finished queue message with a date. The scheduled function
// sends each due task and then drops it. If the function dies in between, or two
// runs overlap, the message is sent twice. Both copies carry the same activity id,
// by which all work behind the queue is idempotent, so the agenda needs no lock.
package agenda

import (
	"context"
	"hash/fnv"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
	"fedpost/internal/message/claimcheck"
)

// Shards is how many parts the agenda is split in, so that several runs can
// share the work and no partition of the due index runs hot.
const Shards = 4

// Task is a message to send when it is due.
type Task struct {
	// ID is the activity's, or that of a batch's first activity. A task that is put
	// twice is one task.
	ID    string     `json:"-"`
	Queue queue.Name `json:"queue"`
	// Body is the encoded message, at most what fits an item when deflated.
	Body string `json:"body"`
	// Group and Key are the message's ordering and deduplication keys on a FIFO queue: the
	// ID and its ReleaseKey if empty.
	Group string    `json:"group,omitempty"`
	Key   string    `json:"key,omitempty"`
	DueAt time.Time `json:"due"`
	// Forget is when the table may drop it, whether released or not: at least Slack
	// after it is due.
	Forget time.Time `json:"-"`
	// Damaged is why the stored task cannot be read. Read only; of such a task
	// only ID and Forget are set.
	Damaged error `json:"-"`
}

// ReleaseKey is the deduplication key of what is released of a task. It is none that a
// message is sent under at once: that message may have been put off by a worker, and under
// its key a FIFO queue would drop, for five minutes, what is released.
func ReleaseKey(id string) string { return "later/" + id }

// Shard is the shard of t. Tasks of one ordering group are in the same shard, because
// tasks are released in order within a shard.
func (t Task) Shard() int {
	name := t.Group
	if name == "" {
		name = t.ID
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	return int(h.Sum32() % Shards)
}

// Slack is how long a task, and the payload that it refers to, is kept after its due
// time. If the schedule does not run for less than Slack, nothing is lost. No setting
// shortens Slack.
const Slack = 30 * 24 * time.Hour

// Fit returns the encoded message body as a task can hold it: body itself, or a
// claim check for it, stored under id until forget.
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
	// PutTask notes t, replacing one of the same id.
	PutTask(ctx context.Context, t Task) error
	// DueTasks returns up to limit tasks of a shard that are due at now, the earliest
	// first. Tasks that were dropped before the call are left out. A task that cannot
	// be read is returned with Damaged set.
	DueTasks(ctx context.Context, shard int, now time.Time, limit int) ([]Task, error)
	// DropTasks forgets tasks.
	DropTasks(ctx context.Context, ts []Task) error
}
