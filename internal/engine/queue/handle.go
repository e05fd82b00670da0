package queue

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Handle is a receipt handle of an engine that keeps messages itself. As on SQS, a handle does
// not fence: an old handle still deletes a message that was received again.
type Handle struct {
	Queue   Name
	Seq     int64 // of the message
	Receipt int
	Group   []byte // for engines that lock the group before the message
}

func (h Handle) String() string {
	return fmt.Sprintf("%s.%d.%d.%x", h.Queue, h.Seq, h.Receipt, h.Group)
}

// ParseHandle reads a receipt handle of the queue n. The error wraps ErrInvalid.
func ParseHandle(n Name, s string) (Handle, error) {
	parts := strings.Split(s, ".")
	if len(parts) == 4 && Name(parts[0]) == n {
		seq, err1 := strconv.ParseInt(parts[1], 10, 64)
		receipt, err2 := strconv.Atoi(parts[2])
		group, err3 := hex.DecodeString(parts[3])
		if err1 == nil && err2 == nil && err3 == nil {
			return Handle{n, seq, receipt, group}, nil
		}
	}
	return Handle{}, invalid("%q is no receipt handle of this queue", s)
}

// MessageID is a message's id and, on a FIFO queue, its sequence number: 20 digits, as SQS's.
func MessageID(seq int64) string { return fmt.Sprintf("%020d", seq) }

// InFlight is what ChangeVisibility finds under a handle.
type InFlight struct {
	Found bool
	Idle  bool // the message is visible, or was never received
	Long  bool // the message would be hidden for longer than MaxVisibility
}

// Check returns an error, which wraps ErrInvalid, unless the visibility of message seq may
// change.
func (f InFlight) Check(seq int64) error {
	switch {
	case !f.Found:
		return invalid("message %d is not there any more", seq)
	case f.Idle:
		return invalid("message %d is not in flight", seq)
	case f.Long:
		return invalid("message %d would be hidden for over %s since it was received", seq, MaxVisibility)
	}
	return nil
}
