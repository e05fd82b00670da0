package queue

import "fmt"

// InPortions sends messages for an engine's SendBatch: it checks each message and hands the
// good ones to send in portions of the size that SQS takes, so that a long batch holds up no
// other writer. send writes all of a portion or none. On a FIFO queue no message of a group
// follows one that failed.
func InPortions(ms []Message, fifo bool, send func([]Message) error) []error {
	errs := make([]error, len(ms))
	broken := make(map[string]bool) // groups of which a message failed
	var portion []Message
	var indices []int
	size := 0
	flush := func() {
		if len(portion) == 0 {
			return
		}
		if err := send(portion); err != nil {
			for _, i := range indices {
				errs[i] = err
				broken[ms[i].OrderingKey] = true
			}
		}
		portion, indices, size = portion[:0], indices[:0], 0
	}
	for i, m := range ms {
		err := m.Check(fifo)
		if err == nil && (len(portion) == MaxBatch || size+m.Size() > MaxBytes) {
			flush()
		}
		if err == nil && fifo && broken[m.OrderingKey] {
			err = fmt.Errorf("%w: an earlier message of its group failed", ErrNotSent)
		}
		if err != nil {
			errs[i] = err
			broken[m.OrderingKey] = true
			continue
		}
		portion, indices, size = append(portion, m), append(indices, i), size+m.Size()
	}
	flush()
	return errs
}
