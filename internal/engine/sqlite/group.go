package sqlite

import (
	"fedpost/internal/engine/queue"
)

// openGroup adds the group of a new message to the list of groups. An existing
// entry stays unchanged: if the group is held, the new message waits, too.
func openGroup(s *session, n queue.Name, group string, now int64) error {
	return s.exec(`INSERT INTO fifo_group (queue, grp, free) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
		string(n), group, now)
}

// settleGroup updates a group's entry after one of its messages was received,
// hidden, shown, moved or deleted, and returns when the group is free; 0: it has no messages. A
// group that becomes free goes to the end of the list of free groups, so that a busy group starves
// no other.
func settleGroup(s *session, n queue.Name, group string, now int64) (free int64, err error) {
	var head int64
	found, err := s.one(`SELECT visible FROM message WHERE queue = ? AND grp = ? AND fifo = 1 ORDER BY seq LIMIT 1`,
		[]any{string(n), group}, &head)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, s.exec(`DELETE FROM fifo_group WHERE queue = ? AND grp = ?`, string(n), group)
	}
	free = max(head, now)
	return free, s.exec(`INSERT INTO fifo_group (queue, grp, free) VALUES (?, ?, ?)
		ON CONFLICT (queue, grp) DO UPDATE SET free = excluded.free`,
		string(n), group, free)
}

// freeGroups lists groups whose first message is visible, the longest free first.
func freeGroups(s *session, n queue.Name, now int64, limit int) ([]string, error) {
	var groups []string
	err := s.each(`SELECT grp FROM fifo_group WHERE queue = ? AND free <= ? ORDER BY free LIMIT ? + 0`,
		[]any{string(n), now, limit},
		func(scan func(...any) error) error {
			var g string
			err := scan(&g)
			groups = append(groups, g)
			return err
		})
	return groups, err
}
