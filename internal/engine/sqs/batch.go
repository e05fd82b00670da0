package sqs

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"fedpost/internal/engine/awssdk"
	"fedpost/internal/engine/batches"
	"fedpost/internal/engine/queue"
)

const (
	// parallel is how many batches of a standard queue are sent at once.
	parallel = 8
	// tries is how often an entry is sent that fails through SQS's own fault.
	tries = 4
)

func (q *Queue) SendBatch(ctx context.Context, ms []queue.Message) []error {
	errs := make([]error, len(ms))
	var fit []int
	for i, m := range ms {
		if errs[i] = m.Check(q.fifo); errs[i] == nil || q.fifo {
			fit = append(fit, i)
		}
	}
	if q.fifo {
		q.sendGroups(ctx, ms, fit, errs)
		return errs
	}
	var work errgroup.Group
	work.SetLimit(parallel)
	for batch := range split(ms, fit) {
		work.Go(func() error {
			q.sendOne(ctx, ms, batch, errs)
			return nil
		})
	}
	_ = work.Wait() // the errors are in errs, each goroutine has its own entries
	return errs
}

// split cuts the messages at the indices into batches that SQS takes.
func split(ms []queue.Message, indices []int) iter.Seq[[]int] {
	return batches.Of(indices, queue.MaxBatch, queue.MaxBytes, func(i int) int { return ms[i].Size() })
}

// sendGroups sends to a FIFO queue. SQS may fail one entry of a batch and take a
// later one, so no request carries two messages of one group: a message is sent
// only when its predecessor's result is known. Messages of different groups share
// requests.
func (q *Queue) sendGroups(ctx context.Context, ms []queue.Message, pending []int, errs []error) {
	failed := make(map[string]bool)
	for len(pending) > 0 {
		var now, later []int
		inWave := make(map[string]bool)
		for _, i := range pending {
			switch group := ms[i].OrderingKey; {
			case inWave[group]:
				later = append(later, i)
			case errs[i] != nil:
				failed[group] = true // refused by Check
			case failed[group]:
				errs[i] = fmt.Errorf("send to the %s queue: %w: an earlier message of its group failed", q.name, queue.ErrNotSent)
			default:
				inWave[group] = true
				now = append(now, i)
			}
		}
		for batch := range split(ms, now) {
			q.sendOne(ctx, ms, batch, errs)
		}
		for _, i := range now {
			failed[ms[i].OrderingKey] = errs[i] != nil
		}
		pending = later
	}
}

// sendOne sends the messages at the indices in one request, and sends those again
// that failed through SQS's own fault. It sets their errors.
func (q *Queue) sendOne(ctx context.Context, ms []queue.Message, batch []int, errs []error) {
	maybe := make(map[int]bool) // entries that an earlier try may have sent
	for try := 1; ; try++ {
		in := &sqs.SendMessageBatchInput{QueueUrl: &q.url}
		for _, i := range batch {
			e := q.entry(ms[i])
			e.Id = aws.String(strconv.Itoa(i))
			in.Entries = append(in.Entries, e)
		}
		var log awssdk.AttemptLog
		out, err := q.sendBatch(ctx, in, record(&log))
		if err != nil {
			err = q.sendError(err, &log)
			for _, i := range batch {
				errs[i] = q.entryError(maybe[i], err)
			}
			return
		}
		batch = q.readAnswer(out, batch, maybe, errs)
		if len(batch) == 0 || try == tries || q.pause(ctx, try) != nil {
			return
		}
	}
}

// readAnswer sets the errors of a batch's entries and returns the entries worth
// another try.
func (q *Queue) readAnswer(out *sqs.SendMessageBatchOutput, batch []int, maybe map[int]bool, errs []error) (again []int) {
	answers := make(map[string]*types.BatchResultErrorEntry, len(batch)) // nil: sent
	for _, f := range out.Failed {
		answers[aws.ToString(f.Id)] = &f
	}
	for _, s := range out.Successful {
		answers[aws.ToString(s.Id)] = nil
	}
	for _, i := range batch {
		f, mentioned := answers[strconv.Itoa(i)]
		switch {
		case !mentioned:
			maybe[i] = true
			errs[i] = fmt.Errorf("send to the %s queue: it may or may not be sent: the answer does not mention it", q.name)
		case f == nil:
			errs[i] = nil
		default:
			code := aws.ToString(f.Code)
			// After a fault of the service itself, the message may be on the queue.
			maybe[i] = maybe[i] || !f.SenderFault && !throttled(code)
			kind := queue.ErrNotSent
			if code == (&types.InvalidMessageContents{}).ErrorCode() {
				kind = queue.ErrInvalid
			}
			errs[i] = q.entryError(maybe[i], fmt.Errorf("send to the %s queue: %w: %s: %s", q.name, kind, code, aws.ToString(f.Message)))
			if !f.SenderFault || throttled(code) {
				again = append(again, i)
			}
		}
	}
	return again
}

// entryError returns err. If an earlier try may have sent the message, the error
// no longer promises that nothing was sent (queue.NotSent).
func (q *Queue) entryError(maybe bool, err error) error {
	if !maybe || !queue.NotSent(err) {
		return err
	}
	// Only err's text is used: wrapped with %w, err would still make the promise.
	return fmt.Errorf("it may or may not be sent: an earlier try is in doubt, the last said: %s", err)
}

func throttled(code string) bool {
	return slices.Contains([]string{"RequestThrottled", "ThrottlingException", "Throttling", "KmsThrottled", "KMS.ThrottlingException"}, code)
}

// pause waits 50, 100, 200 ms … with full jitter before the next try.
func pause(ctx context.Context, try int) error {
	return awssdk.Wait(ctx, rand.N(50*time.Millisecond<<try)+time.Millisecond)
}
