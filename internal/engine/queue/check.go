package queue

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxAttributes is how many attributes a message may have on SQS.
const MaxAttributes = 10

// attributeType is the type of all attributes. It counts towards the size,
// because SQS counts names, types and values.
const attributeType = "String"

// Size is how many bytes of MaxBytes m uses: body and attributes.
//
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html
func (m Message) Size() int {
	n := len(m.Body)
	for name, value := range m.Attributes {
		n += len(name) + len(attributeType) + len(value)
	}
	return n
}

// Check returns an error if a queue, FIFO or standard, must refuse m: ErrTooLarge
// or ErrInvalid, wrapped with the reason. All engines call Check, so that no engine refuses a
// message that another one takes.
func (m Message) Check(fifo bool) error {
	switch {
	case m.Body == "":
		return invalid("the body is empty")
	case !allowed(m.Body):
		return invalid("the body has characters that a queue cannot carry (only tab, line feed, carriage return and U+0020 to U+FFFD and up)")
	case m.Delay < 0:
		return invalid("the delay %s is negative", m.Delay)
	case fifo && m.Delay != 0:
		return invalid("a FIFO queue has no delay per message")
	case m.Delay > MaxDelay:
		return invalid("the delay %s is over %s", m.Delay, MaxDelay)
	case fifo && m.OrderingKey == "":
		return invalid("a FIFO queue needs an ordering key")
	case fifo && m.DeduplicationKey == "":
		return invalid("a FIFO queue needs a deduplication key")
	case !fifo && m.DeduplicationKey != "":
		return invalid("a standard queue takes no deduplication key")
	case len(m.Attributes) > MaxAttributes:
		return invalid("%d attributes, at most %d", len(m.Attributes), MaxAttributes)
	}
	for name, value := range m.Attributes {
		if err := checkAttribute(name, value); err != nil {
			return err
		}
	}
	if n := m.Size(); n > MaxBytes {
		return fmt.Errorf("%w: %d bytes with attributes", ErrTooLarge, n)
	}
	return nil
}

func checkAttribute(name, value string) error {
	lower := strings.ToLower(name)
	if name == "" || len(name) > 256 ||
		strings.IndexFunc(name, func(r rune) bool { return !strings.ContainsRune(attributeChars, r) }) >= 0 ||
		strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") ||
		strings.HasPrefix(lower, "aws.") || strings.HasPrefix(lower, "amazon.") {
		return invalid("%q is no name for an attribute", name)
	}
	if value == "" || !allowed(value) {
		return invalid("the attribute %s is empty or has characters that a queue cannot carry", name)
	}
	return nil
}

const attributeChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

// allowed reports whether SQS takes s: valid UTF-8 of the characters that XML
// 1.0 can carry.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
func allowed(s string) bool {
	for i, r := range s {
		switch {
		case r == utf8.RuneError:
			// A real U+FFFD takes three bytes; an encoding error takes one.
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return false
			}
		case r == '\t', r == '\n', r == '\r':
		case r < 0x20, r == 0xFFFE, r == 0xFFFF:
			return false
		}
	}
	return true
}

// CheckVisibility returns an error unless SQS takes d as a visibility timeout.
func CheckVisibility(d time.Duration) error {
	if d < 0 || d > MaxVisibility {
		return invalid("the visibility timeout %s is not between 0 and %s", d, MaxVisibility)
	}
	return nil
}

// Check returns an error unless SQS takes o.
func (o ReceiveOptions) Check() error {
	switch {
	case o.Max < 1 || o.Max > MaxBatch:
		return invalid("%d messages, it is 1 to %d", o.Max, MaxBatch)
	case o.Wait < 0 || o.Wait > MaxWait:
		return invalid("wait of %s, at most %s", o.Wait, MaxWait)
	}
	return CheckVisibility(o.Visibility)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
