// Package message is the format of what travels on fedpost's queues.
//
// One call to the API is one message, so accepting a call is one atomic send. A message is a delivery (an
// activity to a few inboxes), a fan-out (an activity whose recipients have to be split), a batch (several
// activities), or a claim check (the message is in the store, because it is too large for the queue).
//
// Messages outlive deployments: a newer version reads every older one, and an unknown version is an error
// that sends the message to the dead-letter queue.
package message

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"fedpost/internal/activity"
)

// Version is the format written by this code.
const Version = 1

// apartVersion is the format of a delivery whose body is stored once (activity.Apart). A version of fedpost
// that does not know of that has to refuse the message, or it would send an empty body.
const apartVersion = 2

// Message is the body of one queue message. Exactly one of Deliver, FanOut, Batch and Ref is set; Activity
// accompanies the first two.
type Message struct {
	Version  int                `json:"v"`
	Activity *activity.Activity `json:"activity,omitempty"`
	Deliver  *Delivery          `json:"deliver,omitempty"`
	FanOut   *FanOut            `json:"fanout,omitempty"`
	Batch    []Message          `json:"batch,omitempty"`
	Ref      *Ref               `json:"ref,omitempty"`

	// Unrecorded is set if the activity may have no record.
	Unrecorded *Unrecorded `json:"unrecorded,omitempty"`
	// NotBefore is when the work may begin; zero: at once. Until then the worker hands the message back.
	// It is set if the queue has no delays, or if the delay is too long for it and the agenda could not
	// be written.
	NotBefore time.Time `json:"notBefore,omitzero"`
}

// Sender is the document of the actor of m's activities. It is empty for a claim check, and for
// activities without an actor's key.
func (m Message) Sender() string {
	if len(m.Batch) > 0 {
		m = m.Batch[0]
	}
	if m.Activity == nil {
		return ""
	}
	sender, _, _ := strings.Cut(m.Activity.KeyID, "#")
	return cmp.Or(m.Activity.Author, sender)
}

// Unrecorded is what the record of an activity says and its message does not. The table could not be
// written when the activity was accepted, so the first worker writes the record.
type Unrecorded struct {
	Fingerprint string    `json:"fp,omitempty"`
	DueAt       time.Time `json:"due,omitzero"`
	Forget      time.Time `json:"forget"`
	// ActivityID, Sender, Actor and Object are for the lists of activities; Sender is empty if the activity
	// is on none.
	ActivityID string `json:"own,omitempty"`
	Sender     string `json:"sender,omitempty"`
	Actor      string `json:"actor,omitempty"`
	Object     string `json:"object,omitempty"`
}

// Whole is the Position of a Delivery that is for every target of its chunk.
const Whole = -1

// Delivery asks for one attempt to deliver to some targets of an activity.
type Delivery struct {
	// Chunk numbers the slice of the recipient list that Targets belong to.
	Chunk int `json:"chunk"`

	// Position is the place in the chunk of the single target that this message is for, or Whole. A target
	// that failed is split off under its position, so that its retries do not touch its neighbours.
	Position int `json:"pos"`

	Targets activity.Targets `json:"targets"`

	// Attempts counts the requests made before this message was sent, Unsent the tries that ended before a
	// request.
	Attempts int `json:"attempts,omitempty"`
	Unsent   int `json:"unsent,omitempty"`

	// Generation fences a target's messages: a message is dropped if its generation is below the record's,
	// so one that was sent twice or replaced cannot run beside its successor.
	Generation int `json:"gen,omitempty"`

	// Since is when the give-up time began to count; zero: with the activity. It is set anew when a dead
	// delivery is revived.
	Since time.Time `json:"since,omitzero"`

	// Revive is until when a delivery that died because its server was down is revived if the server comes
	// back; zero: it has not died so. Later deaths do not move it, so no delivery is revived for ever.
	Revive time.Time `json:"revive,omitzero"`

	// Slot is the time that was booked for this delivery under the rate limit of its host; zero: none.
	Slot time.Time `json:"slot,omitzero"`

	// Trial marks the half-open delivery that decides whether a circuit closes.
	Trial bool `json:"trial,omitempty"`

	// Alone says that an ordered delivery has left its host's FIFO group for one of its inbox, which
	// took nothing while the host accepted others.
	Alone bool `json:"alone,omitempty"`
}

// FanOut asks for the activity to be split into deliveries.
type FanOut struct {
	Targets activity.Targets `json:"targets"`
	// Cursor is the first chunk that is not expanded yet.
	Cursor int `json:"cursor,omitempty"`
}

// Ref is a claim check: the store has the message under ID, in Parts parts.
type Ref struct {
	ID    string `json:"id"`
	Parts int    `json:"parts"`
	// Cursor is the first chunk of the stored fan-out that is not expanded yet.
	Cursor int `json:"cursor,omitempty"`
}

// ErrMalformed says that a queue message was not made by fedpost, or by a newer version of it. A retry does
// not help.
var ErrMalformed = errors.New("malformed queue message")

// ErrNewer says that a newer version of fedpost made the message, and can read it. It wraps ErrMalformed.
var ErrNewer = fmt.Errorf("%w: a newer version of fedpost has made it", ErrMalformed)

// noncharacters escapes the two characters that are valid in JSON but not in XML 1.0, so that SQS refuses
// them. https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
var noncharacters = strings.NewReplacer("\ufffe", `\ufffe`, "\uffff", `\uffff`)

// Encode returns m as JSON for a queue, in characters that SQS takes. Decode returns every UTF-8 text of m
// byte for byte.
func Encode(m Message) (string, error) {
	m = m.stamped()
	if len(m.Batch) > 0 {
		parts := make([]Message, len(m.Batch))
		for i, part := range m.Batch {
			parts[i] = part.stamped()
		}
		m.Batch = parts
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	// Bodies are full of HTML: escaping <, > and & would inflate them sixfold.
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return "", fmt.Errorf("encode queue message: %w", err)
	}
	// JSON has these characters inside of strings only, where an escape may replace them.
	return noncharacters.Replace(string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))), nil
}

// stamped returns m with its version, and without a body that is stored once.
func (m Message) stamped() Message {
	m.Version = Version
	if m.Deliver != nil && m.Activity != nil && m.Activity.Apart.Parts > 0 {
		light := m.Activity.Light()
		m.Version, m.Activity = apartVersion, &light
	}
	return m
}

// Decode reads a queue message. Its error wraps ErrMalformed.
func Decode(s string) (Message, error) {
	var m Message
	if err := json.Unmarshal([]byte(s), &m); err != nil {
		var known struct {
			Version int `json:"v"`
		}
		if json.Unmarshal([]byte(s), &known) == nil && known.Version > apartVersion {
			return Message{}, newer(known.Version)
		}
		return Message{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return m, m.validate()
}

func newer(version int) error {
	return fmt.Errorf("%w: its format is %d, and this version reads formats up to %d", ErrNewer, version, apartVersion)
}

func (m Message) validate() error {
	if m.Version > apartVersion {
		return newer(m.Version)
	}
	if m.Version != Version && m.Version != apartVersion {
		return fmt.Errorf("%w: version %d, this is version %d", ErrMalformed, m.Version, apartVersion)
	}
	kinds := 0
	for _, set := range []bool{m.Deliver != nil, m.FanOut != nil, len(m.Batch) > 0, m.Ref != nil} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return fmt.Errorf("%w: %d kinds of work in one message", ErrMalformed, kinds)
	case (m.Deliver != nil || m.FanOut != nil) && m.Activity == nil:
		return fmt.Errorf("%w: no activity", ErrMalformed)
	case m.Deliver != nil && len(m.Deliver.Targets) == 0, m.FanOut != nil && len(m.FanOut.Targets) == 0:
		return fmt.Errorf("%w: no targets", ErrMalformed)
	case m.Deliver != nil && m.Deliver.Position != Whole && len(m.Deliver.Targets) != 1:
		return fmt.Errorf("%w: %d targets for one position", ErrMalformed, len(m.Deliver.Targets))
	}
	for _, b := range m.Batch {
		if b.Batch != nil {
			return fmt.Errorf("%w: batch in a batch", ErrMalformed)
		}
		if err := b.validate(); err != nil {
			return err
		}
	}
	return nil
}
