package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"fedpost/internal/protocol/sipher/crypto"
)

// Ack is the acknowledgement in a receiver's answer.
type Ack struct {
	// Data is the member of that name as received: an object that should be an envelope.
	Data json.RawMessage
	// Signature is empty if there is none.
	Signature string
}

var ErrNoJSON = errors.New("answer has no JSON body")

// ErrNoAck says that a 2xx answer is JSON but no acknowledgement.
var ErrNoAck = errors.New("missing acknowledgement")

// ErrAckContent says that an acknowledgement does not open, or that its content is wrong.
var ErrAckContent = errors.New("invalid acknowledgement")

// ParseAck finds the acknowledgement in the body of a 2xx answer: either in its member "payload",
// whatever that object's method, or the body itself. Servers of both kinds exist. Errors wrap ErrNoJSON
// or ErrNoAck.
func ParseAck(body []byte) (Ack, error) {
	if !json.Valid(body) {
		return Ack{}, ErrNoJSON
	}
	outer, err := object(body)
	if err != nil {
		return Ack{}, fmt.Errorf("%w: %w", ErrNoAck, err)
	}
	if inner, err := object(outer["payload"]); err == nil {
		if a, ok := ackOf(inner); ok {
			return a, nil
		}
	}
	if a, ok := ackOf(outer); ok {
		return a, nil
	}
	return Ack{}, ErrNoAck
}

// NamesAck reports whether payload.method in the body of a 2xx answer is that of an acknowledgement.
// Sipher servers check no more than that in acknowledgements which they do not inspect.
func NamesAck(body []byte) bool {
	outer, err := object(body)
	if err != nil {
		return false
	}
	inner, err := object(outer["payload"])
	if err != nil {
		return false
	}
	method, _ := text(inner, "method")
	return method == responseMethod
}

func ackOf(m map[string]json.RawMessage) (Ack, bool) {
	method, _ := text(m, "method")
	status, _ := text(m, "status")
	if _, err := object(m["data"]); err != nil || method != responseMethod || status != acknowledged {
		return Ack{}, false
	}
	signature, _ := text(m, "signature")
	return Ack{Data: m["data"], Signature: signature}, true
}

// Open decrypts the acknowledgement with open. Its error wraps ErrAckContent.
func (a Ack) Open(open func(crypto.Envelope) (string, error)) (string, error) {
	e, err := ParseEnvelope(a.Data)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrAckContent, err)
	}
	plaintext, err := open(e)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrAckContent, err)
	}
	return plaintext, nil
}

type FollowAck struct {
	// ID is the receiver's own id of the follow.
	ID          string
	FollowerID  string
	FollowingID string
	CreatedAt   time.Time
	// Accepted is nil if the receiver has not decided: null or absent.
	Accepted *bool
	// FollowerServerURL is empty for null.
	FollowerServerURL string
	FederationURL     string
}

// ParseFollowAck reads the plaintext of a follow's acknowledgement. Its error wraps ErrAckContent.
func ParseFollowAck(plaintext string) (FollowAck, error) {
	a, err := parseFollowAck(plaintext)
	if err != nil {
		return FollowAck{}, fmt.Errorf("%w: %w", ErrAckContent, err)
	}
	return a, nil
}

func parseFollowAck(plaintext string) (FollowAck, error) {
	m, err := object([]byte(plaintext))
	if err != nil {
		return FollowAck{}, err
	}
	f, err := object(m["following"])
	if err != nil {
		return FollowAck{}, fmt.Errorf("following: %w", err)
	}
	var a FollowAck
	if method, _ := text(m, "method"); method != string(Federate) {
		return FollowAck{}, fmt.Errorf("method is not %s", Federate)
	}
	if err := texts(m, member{"federationUrl", &a.FederationURL}); err != nil {
		return FollowAck{}, err
	}
	if err := texts(f, member{"id", &a.ID}, member{"followerId", &a.FollowerID}, member{"followingId", &a.FollowingID}); err != nil {
		return FollowAck{}, err
	}
	if !isNull(f, "followerServerUrl") {
		v, ok := text(f, "followerServerUrl")
		if !ok {
			return FollowAck{}, errors.New("followerServerUrl is missing or neither string nor null")
		}
		a.FollowerServerURL = v
	}
	if _, there := f["accepted"]; there && !isNull(f, "accepted") {
		if a.Accepted = flag(f, "accepted"); a.Accepted == nil {
			return FollowAck{}, errors.New("accepted is neither true, false nor null")
		}
	}
	if a.CreatedAt, err = date(f["createdAt"]); err != nil {
		return FollowAck{}, fmt.Errorf("createdAt: %w", err)
	}
	return a, nil
}

// dateLayouts are the forms of ISO 8601 that JavaScript writes and reads. Go accepts fractions of a
// second in all of them.
var dateLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", time.DateOnly,
}

// maxDate is the largest date of JavaScript, in ms from the epoch.
// https://tc39.es/ecma262/#sec-time-values-and-time-range
const maxDate = 8.64e15

var errDate = errors.New("neither an ISO 8601 date nor milliseconds since the epoch")

// date reads a JSON value that is an ISO date or a number of milliseconds. null is the epoch, as for
// JavaScript's Date, by which Sipher servers read it.
func date(raw json.RawMessage) (time.Time, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return time.Time{}, errDate
	}
	switch v := v.(type) {
	case nil:
		return time.UnixMilli(0).UTC(), nil
	case float64:
		if math.Abs(v) > maxDate {
			return time.Time{}, errDate
		}
		return time.UnixMilli(int64(v)).UTC(), nil
	case string:
		for _, layout := range dateLayouts {
			if t, err := time.Parse(layout, strings.TrimSpace(v)); err == nil {
				return t.UTC(), nil
			}
		}
	}
	return time.Time{}, errDate
}
