package wire

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Payload is what we need to know of a job's plaintext.
type Payload struct {
	Method Method
	// Following is the follow that the payload is about, nil if it has none.
	Following *Following
}

// Following is the follow a payload announces, as its author stores it.
type Following struct {
	ID          string
	FollowerID  string
	FollowingID string
	Accepted    bool
	CreatedAt   string
	// FollowerServerURL and FollowingServerURL are empty if the payload has null or nothing.
	FollowerServerURL  string
	FollowingServerURL string
	Acknowledged       bool
}

// ErrPayload says that a job can never be sent: row 1 of the outcome table.
var ErrPayload = errors.New("invalid sipher payload")

// ParsePayload checks a job's plaintext. Every error wraps ErrPayload and says what to change.
func ParsePayload(plaintext string) (Payload, error) {
	// The receiver verifies the signature over decoded text, and decoding changes invalid UTF-8.
	if !utf8.ValidString(plaintext) {
		return Payload{}, fmt.Errorf("%w: it is not UTF-8", ErrPayload)
	}
	m, err := object([]byte(plaintext))
	if err != nil {
		return Payload{}, fmt.Errorf("%w: it must be a JSON object: %w", ErrPayload, err)
	}
	name, ok := text(m, "method")
	if !ok {
		return Payload{}, fmt.Errorf("%w: member \"method\" is missing or not a string", ErrPayload)
	}
	p := Payload{Method: Method(name)}
	if !p.Method.Valid() {
		return Payload{}, fmt.Errorf("%w: method %.40q is not one of %s, %s, %s, %s",
			ErrPayload, name, Federate, FederatePost, Insert, Unfollow)
	}
	p.Following = following(m["following"])
	return p, nil
}

// following reads the member "following"; nil if an id is missing that acknowledgements are matched by.
func following(raw []byte) *Following {
	m, err := object(raw)
	if err != nil {
		return nil
	}
	f := &Following{}
	if texts(m, member{"followerId", &f.FollowerID}, member{"followingId", &f.FollowingID}) != nil {
		return nil
	}
	for name, into := range map[string]*string{
		"id": &f.ID, "createdAt": &f.CreatedAt,
		"followerServerUrl": &f.FollowerServerURL, "followingServerUrl": &f.FollowingServerURL,
	} {
		if s, ok := text(m, name); ok {
			*into = s
		}
	}
	if b := flag(m, "accepted"); b != nil {
		f.Accepted = *b
	}
	if b := flag(m, "acknowledged"); b != nil {
		f.Acknowledged = *b
	}
	return f
}
