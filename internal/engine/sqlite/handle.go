package sqlite

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fedpost/internal/engine/queue"
)

// handle names one receipt of a message. As on SQS, a handle does not fence: an old
// handle still deletes the message, although it was received again.
type handle struct {
	queue   queue.Name
	seq     int64
	receipt int
}

func (h handle) String() string { return fmt.Sprintf("%s.%d.%d", h.queue, h.seq, h.receipt) }

func (q *mq) parseHandle(s string) (handle, error) {
	parts := strings.Split(s, ".")
	if len(parts) == 3 && queue.Name(parts[0]) == q.name {
		seq, err1 := strconv.ParseInt(parts[1], 10, 64)
		receipt, err2 := strconv.Atoi(parts[2])
		if err1 == nil && err2 == nil {
			return handle{q.name, seq, receipt}, nil
		}
	}
	return handle{}, fmt.Errorf("%w: %q is no receipt handle of this queue", queue.ErrInvalid, s)
}

// Delete implements queue.Queue. Deleting twice is no error, as on SQS.
func (q *mq) Delete(ctx context.Context, receipt string) error {
	h, err := q.parseHandle(receipt)
	if err != nil {
		return fmt.Errorf("delete from %s: %w", q.name, err)
	}
	freed := false
	err = q.write(ctx, func(s *session) error {
		freed = false
		var group string
		found, err := s.one(`SELECT grp FROM message WHERE seq = ? AND queue = ?`, []any{h.seq, string(q.name)}, &group)
		if err != nil || !found {
			return err
		}
		if err := discard(s, `seq = ?`, h.seq); err != nil || !q.fifo {
			return err
		}
		freed = true
		return settleGroup(s, q.name, group, q.now().UnixMilli())
	})
	if err != nil {
		return fmt.Errorf("delete from %s: %w", q.name, err)
	}
	if freed {
		q.wake.Ring(q.name, 1) // for the group, which one receiver gets
	}
	return nil
}

// ChangeVisibility implements queue.Queue.
func (q *mq) ChangeVisibility(ctx context.Context, receipt string, d time.Duration) error {
	h, err := q.parseHandle(receipt)
	if err == nil {
		err = queue.CheckVisibility(d)
	}
	if err == nil {
		err = q.write(ctx, func(s *session) error { return q.hide(s, h, d) })
	}
	if err != nil {
		return fmt.Errorf("change the visibility of a message of %s: %w", q.name, err)
	}
	if d == 0 {
		q.wake.Ring(q.name, 1)
	} else {
		q.wake.Shift(q.name)
	}
	return nil
}

func (q *mq) hide(s *session, h handle, d time.Duration) error {
	now := q.now().UnixMilli()
	var group string
	var visible, received int64
	var receives int
	found, err := s.one(`SELECT grp, visible, received, receives FROM message WHERE seq = ? AND queue = ?`,
		[]any{h.seq, string(q.name)}, &group, &visible, &received, &receives)
	switch until := now + queue.CeilMilli(d); {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("%w: message %d is not there any more", queue.ErrInvalid, h.seq)
	case visible <= now || receives == 0:
		return fmt.Errorf("%w: message %d is not in flight", queue.ErrInvalid, h.seq)
	case until > received+queue.MaxVisibility.Milliseconds():
		return fmt.Errorf("%w: message %d would be hidden for over %s since it was received", queue.ErrInvalid, h.seq, queue.MaxVisibility)
	default:
		if err := s.exec(`UPDATE message SET visible = ? WHERE seq = ?`, until, h.seq); err != nil {
			return err
		}
	}
	if q.fifo {
		return settleGroup(s, q.name, group, now)
	}
	return nil
}

// Depth implements queue.Queue.
func (q *mq) Depth(ctx context.Context) (queue.Depth, error) {
	var d queue.Depth
	now := q.now().UnixMilli()
	err := q.read(ctx, func(s *session) error {
		_, err := s.one(`SELECT
			(SELECT count(*) FROM message WHERE queue = ?1 AND visible <= ?2),
			(SELECT count(*) FROM message WHERE queue = ?1 AND visible > ?2 AND receives > 0),
			(SELECT count(*) FROM message WHERE queue = ?1 AND visible > ?2 AND receives = 0)`,
			[]any{string(q.name), now}, &d.Visible, &d.InFlight, &d.Delayed)
		return err
	})
	if err != nil {
		return queue.Depth{}, fmt.Errorf("depth of %s: %w", q.name, err)
	}
	return d, nil
}

// discard deletes the messages that match a condition, with their bodies.
func discard(s *session, where string, args ...any) error {
	if err := s.exec(`DELETE FROM body WHERE seq IN (SELECT seq FROM message WHERE `+where+`)`, args...); err != nil {
		return err
	}
	return s.exec(`DELETE FROM message WHERE `+where, args...)
}

// Oldest returns the sending time of the oldest message that is visible or in
// flight, zero if there is none. SQS reports this time only through CloudWatch.
func (q *mq) Oldest(ctx context.Context) (time.Time, error) {
	var sent int64
	err := q.read(ctx, func(s *session) error {
		_, err := s.one(`SELECT sent FROM message WHERE queue = ? AND (visible <= ? OR receives > 0) ORDER BY sent LIMIT 1`,
			[]any{string(q.name), q.now().UnixMilli()}, &sent)
		return err
	})
	if err != nil || sent == 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(sent).UTC(), nil
}
