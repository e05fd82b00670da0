package enqueue

// LimitMessages makes messages of more than some bytes go by claim check, so
// that tests of it need not be as large as a queue's limit.
func LimitMessages(s *Service, bytes int) { s.maxMessage = bytes }
