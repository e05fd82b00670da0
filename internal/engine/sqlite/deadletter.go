package sqlite

import (
	"context"
	"fmt"

	"fedpost/internal/engine/queue"
)

// moveToDead moves m to the dead-letter queue, where it can be received at once. As on
// SQS, a standard message keeps its sending time and so its remaining retention;
// the retention of a FIFO message starts again.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html
func (t *taking) moveToDead(m stored) error {
	dead := t.name.DeadLetter()
	sent := m.got.SentAt.UnixMilli()
	if t.fifo {
		sent = t.now
	}
	if err := t.s.exec(`UPDATE message SET queue = ?, source = ?, sent = ?, visible = ?, receives = 0, received = 0 WHERE seq = ?`,
		string(dead), string(t.name), sent, t.now, m.seq); err != nil {
		return err
	}
	if t.fifo {
		return openGroup(t.s, dead, m.group, t.now)
	}
	return nil
}

const redriveStep = 100

// Redrive moves the dead letters that are not in flight back to their source
// queues, oldest first, and returns how many it moved. As on SQS, a redriven
// message is a new message, with a new sending time and no receives, and messages
// that were sent to the dead-letter queue directly stay there.
//
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html
func (e *Engine) Redrive(ctx context.Context, dead queue.Name) (int, error) {
	return e.redriveAll(ctx, dead, "")
}

// RedriveTo moves all dead letters to one destination, also those that were sent
// to the dead-letter queue directly.
func (e *Engine) RedriveTo(ctx context.Context, dead, to queue.Name) (int, error) {
	if to.DeadLetter() != dead {
		return 0, fmt.Errorf("redrive: dead letters of %q are not in %q", to, dead)
	}
	return e.redriveAll(ctx, dead, to)
}

func (e *Engine) redriveAll(ctx context.Context, dead, to queue.Name) (int, error) {
	if dead.DeadLetter() != dead || to == dead {
		return 0, fmt.Errorf("redrive: %q is no queue of dead letters, or its own destination", dead)
	}
	total := 0
	for {
		moved := make(map[queue.Name]int)
		n := 0
		err := e.write(ctx, func(s *session) error {
			clear(moved)
			var err error
			n, err = e.redrive(s, dead, to, moved)
			return err
		})
		if err != nil {
			return total, fmt.Errorf("redrive %s: %w", dead, err)
		}
		for source, messages := range moved {
			e.wake.Wake(source, messages)
		}
		if total += n; n < redriveStep {
			return total, nil
		}
	}
}

// redrive moves up to redriveStep messages to a queue, or to their source queues if to
// is empty.
func (e *Engine) redrive(s *session, dead, to queue.Name, moved map[queue.Name]int) (int, error) {
	now := e.now().UnixMilli()
	var seqs []int64
	var rows []row
	err := s.each(`SELECT m.seq, coalesce(nullif(?1, ''), m.source), m.grp, m.dedup, b.body, b.attributes FROM message m JOIN body b ON b.seq = m.seq
		WHERE m.queue = ?2 AND (?1 <> '' OR m.source <> '') AND m.visible <= ?3 ORDER BY m.seq LIMIT ?4 + 0`,
		[]any{string(to), string(dead), now, redriveStep},
		func(scan func(...any) error) error {
			var seq int64
			r := row{sent: now, visible: now}
			err := scan(&seq, &r.queue, &r.group, &r.dedup, &r.body, &r.attributes)
			seqs, rows = append(seqs, seq), append(rows, r)
			return err
		})
	if err != nil {
		return 0, err
	}
	for i, r := range rows {
		if err := discard(s, `seq = ?`, seqs[i]); err != nil {
			return 0, err
		}
		if e.typ.FIFO(dead) {
			if err := settleGroup(s, dead, r.group, now); err != nil {
				return 0, err
			}
		}
		if err := r.insert(s, e.typ.FIFO(r.queue)); err != nil {
			return 0, err
		}
		moved[r.queue]++
	}
	return len(rows), nil
}
