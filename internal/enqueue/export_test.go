package enqueue

// LimitMessages lowers the size above which messages go by claim check, so that
// tests need no message as large as a queue's limit.
func LimitMessages(s *Service, bytes int) { s.maxMessage = bytes }
