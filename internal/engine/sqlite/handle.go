package sqlite

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/engine/queue"
)

// Delete implements queue.Queue. Deleting twice is no error, as on SQS.
func (q *mq) Delete(ctx context.Context, receipt string) error {
	h, err := queue.ParseHandle(q.name, receipt)
	if err != nil {
		return fmt.Errorf("delete from %s: %w", q.name, err)
	}
	var free, now int64 // when the next message of its group is visible; 0: none is
	err = q.writeUnsynced(ctx, func(s *session) error {
		free, now = 0, q.now().UnixMilli()
		var group string
		found, err := s.one(`SELECT grp FROM message WHERE seq = ? AND queue = ?`, []any{h.Seq, string(q.name)}, &group)
		if err != nil || !found {
			return err
		}
		if err := discard(s, `seq = ?`, h.Seq); err != nil || !q.fifo {
			return err
		}
		free, err = settleGroup(s, q.name, group, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("delete from %s: %w", q.name, err)
	}
	switch {
	case free > now:
		q.wake.Shift(q.name, time.Duration(free-now)*time.Millisecond)
	case free > 0:
		q.wake.Wake(q.name, 1) // for the group, which one receiver gets
	}
	return nil
}

func (q *mq) ChangeVisibility(ctx context.Context, receipt string, d time.Duration) error {
	h, err := queue.ParseHandle(q.name, receipt)
	if err == nil {
		err = queue.CheckVisibility(d)
	}
	if err == nil {
		err = q.writeUnsynced(ctx, func(s *session) error { return q.hide(s, h, d) })
	}
	if err != nil {
		return fmt.Errorf("change the visibility of a message of %s: %w", q.name, err)
	}
	if d == 0 {
		q.wake.Wake(q.name, 1)
	} else {
		q.wake.Shift(q.name, d)
	}
	return nil
}

func (q *mq) hide(s *session, h queue.Handle, d time.Duration) error {
	now := q.now().UnixMilli()
	var group string
	var visible, received int64
	var receives int
	found, err := s.one(`SELECT grp, visible, received, receives FROM message WHERE seq = ? AND queue = ?`,
		[]any{h.Seq, string(q.name)}, &group, &visible, &received, &receives)
	if err != nil {
		return err
	}
	until := now + queue.CeilMilli(d)
	state := queue.InFlight{Found: found, Idle: visible <= now || receives == 0, Long: until > received+queue.MaxVisibility.Milliseconds()}
	if err := state.Check(h.Seq); err != nil {
		return err
	}
	if err := s.exec(`UPDATE message SET visible = ? WHERE seq = ?`, until, h.Seq); err != nil || !q.fifo {
		return err
	}
	_, err = settleGroup(s, q.name, group, now)
	return err
}

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
