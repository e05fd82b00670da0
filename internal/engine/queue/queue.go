// Package queue is the port to a message queue with the semantics of Amazon SQS. All engines
// (SQS, SQLite, PostgreSQL) pass the suite in queuetest, which is the contract.
//
// Capabilities says what a queue does by itself. Code that needs deduplication or retries asks
// the queue first, and does them itself only if the queue does not.
package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Name is a queue's role. The engines map it to a URL or a table row.
type Name string

// The queues of fedpost.
const (
	High        Name = "high"
	Normal      Name = "normal"
	Low         Name = "low"
	Ordered     Name = "ordered"
	Dead        Name = "dead" // dead letters of the queues of the three priorities
	DeadOrdered Name = "dead-ordered"
)

var Names = []Name{High, Normal, Low, Ordered, Dead, DeadOrdered}

// Ordered reports whether the order of messages matters on the queue of this name: no
// message may overtake an earlier one of its group, retries included. Such a queue is a
// FIFO queue in every installation.
func (n Name) Ordered() bool { return n == Ordered || n == DeadOrdered }

// DeadLetter returns the queue that undeliverable messages of n go to.
func (n Name) DeadLetter() Name {
	if n.Ordered() {
		return DeadOrdered
	}
	return Dead
}

// Type is the type of an installation's queues, those of the three priorities and their
// dead letters. The ordered queues are FIFO queues in every installation.
type Type string

// The types. Standard is the default: the empty Type means the same.
const (
	Standard Type = "standard"
	// Fair: standard queues on which groups of messages alternate; see FairOrder.
	Fair Type = "fair"
	// FIFO: the queues deduplicate by themselves. The messages of the priorities are
	// each in a group of their own, so no message waits for another.
	FIFO Type = "fifo"
)

func (t Type) FairOrders() map[Name]*FairOrder {
	all := map[Name]*FairOrder{}
	for _, n := range Names {
		if t.Of(n).Fair {
			all[n] = new(FairOrder)
		}
	}
	return all
}

// FIFO reports whether the queue n of an installation of this type is a FIFO queue.
func (t Type) FIFO(n Name) bool { return t == FIFO || n.Ordered() }

// Of returns what a queue of SQS can do by itself.
func (t Type) Of(n Name) Capabilities {
	if t.FIFO(n) {
		return Capabilities{NativeDeduplication: true, NativeRetrial: true}
	}
	return Capabilities{NativeRetrial: true, MaxDelay: MaxDelay, Fair: t == Fair && n != n.DeadLetter()}
}

// Limits of SQS, which every engine keeps, so that nothing works locally that
// would fail in production.
//
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
const (
	MaxBytes      = 1 << 20          // a message, and the sum of a batch, bodies and attributes
	MaxBatch      = 10               // entries in a batch, and messages in a receive
	MaxDelay      = 15 * time.Minute // of one message; none on a FIFO queue
	MaxVisibility = 12 * time.Hour   // counted from the first receive
	MaxWait       = 20 * time.Second // of a receive
	MaxDedupID    = 128              // characters of a deduplication or group id

	// DedupWindow is how long a FIFO queue remembers a deduplication id.
	DedupWindow = 5 * time.Minute
)

// Capabilities says what a queue does by itself.
type Capabilities struct {
	// NativeDeduplication: the queue drops a second message with the same
	// deduplication key inside DedupWindow.
	NativeDeduplication bool
	// NativeRetrial: a message that was received and not deleted comes back by
	// itself when its visibility timeout ends.
	NativeRetrial bool
	// MaxDelay is the longest delay of a single message; 0 if the queue has no delays.
	MaxDelay time.Duration
	// Fair: messages with different OrderingKeys alternate; see FairOrder.
	Fair bool
}

// Message is what is sent.
type Message struct {
	Body string
	// Delay before the message becomes visible: up to Capabilities.MaxDelay.
	Delay time.Duration
	// OrderingKey is the message group, any string: engines hash it. A FIFO queue
	// requires the key, and the messages of one group are received in the order
	// they were sent. On a standard queue the key names the tenant of a fair
	// queue.
	OrderingKey string
	// DeduplicationKey is any string: engines hash it. A FIFO queue requires the
	// key, a standard queue refuses it.
	DeduplicationKey string
	// Attributes are string attributes that consumers and operators can read
	// without parsing the body.
	Attributes map[string]string
}

// Received is one receipt of a message.
type Received struct {
	ID     string
	Handle string // of this receipt, for Delete and ChangeVisibility
	Message
	ReceiveCount int       // this receipt included
	SentAt       time.Time // when it was sent
	Sequence     string    // FIFO: grows within a group, 20 digits
}

type ReceiveOptions struct {
	Max        int           // 1 to MaxBatch
	Wait       time.Duration // how long to wait for a first message, up to 20 s
	Visibility time.Duration // 0: the queue's own
}

// Depth counts a queue's messages; on SQS all numbers are approximate.
type Depth struct {
	Visible, InFlight, Delayed int
}

// Sender is the half of a queue that producers need.
type Sender interface {
	Capabilities() Capabilities
	// Send sends one message. An error for which NotSent holds promises that
	// nothing was sent; after any other error the message may be on the queue.
	Send(ctx context.Context, m Message) error
	// SendBatch sends up to any number of messages, in as few requests as the
	// limits allow, and returns one error per message, nil where it was sent.
	// On a FIFO queue the order of a group is kept: after a failed message of a
	// group no later one of that group is sent.
	SendBatch(ctx context.Context, ms []Message) []error
}

// Queue is a whole queue.
type Queue interface {
	Sender
	Receive(ctx context.Context, o ReceiveOptions) ([]Received, error)
	// Delete removes a message by a receipt handle. Handles do not fence: an old
	// handle still deletes a message that was received again, as on SQS.
	Delete(ctx context.Context, handle string) error
	// ChangeVisibility makes the message visible d from now.
	ChangeVisibility(ctx context.Context, handle string, d time.Duration) error
	Depth(ctx context.Context) (Depth, error)
}

// ErrNotSent marks a definite failure: the message is not on the queue.
var ErrNotSent = errors.New("message was not sent")

// NotSent reports whether err promises that nothing was sent. It is false for nil
// and for an ambiguous error (a time-out, a lost response).
func NotSent(err error) bool { return errors.Is(err, ErrNotSent) }

// ErrUncertain says that a write of an engine that keeps messages itself may or may not have
// happened.
var ErrUncertain = errors.New("the outcome of the write is not known")

// SendError is the error of a send to the queue n that failed with err: unless err is
// ErrUncertain, nothing was sent.
func SendError(n Name, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUncertain):
		return fmt.Errorf("send to %s: %w", n, err)
	}
	return fmt.Errorf("send to %s: %w: %w", n, ErrNotSent, err)
}

// ErrTooLarge says that a message is over MaxBytes. It wraps ErrNotSent.
var ErrTooLarge = notSentError("message exceeds 1 MiB")

// ErrInvalid says that a message breaks a rule of its queue. It wraps ErrNotSent.
var ErrInvalid = notSentError("message breaks a rule of the queue")

// Refused reports whether err says that the queue will never take the message,
// however often it is sent.
func Refused(err error) bool { return errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooLarge) }

type notSentError string

func (e notSentError) Error() string { return string(e) }
func (e notSentError) Unwrap() error { return ErrNotSent }
