package sqlite

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
