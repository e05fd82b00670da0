// Package follow is the local record of the follows that were sent out, and what their
// acknowledgements change in it. The record is written when the job is enqueued: the acknowledgement
// is the answer to the request that announces the follow.
package follow

import (
	"context"
	"errors"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/protocol/sipher/wire"
)

// Follow is one follow as we know it.
type Follow struct {
	ID                 string    `json:"id"`
	FollowerID         string    `json:"followerId"`
	FollowingID        string    `json:"followingId"`
	FollowerServerURL  string    `json:"followerServerUrl"`
	FollowingServerURL string    `json:"followingServerUrl,omitempty"`
	Accepted           bool      `json:"accepted"`
	Acknowledged       bool      `json:"acknowledged"`
	CreatedAt          string    `json:"createdAt,omitempty"` // as the payload has it
	RecordedAt         time.Time `json:"recordedAt"`          // when the job was accepted
	UpdatedAt          time.Time `json:"updatedAt"`
}

// Key matches an acknowledgement with a follow. ServerURL is the follow's followerServerUrl, canonical:
// in this protocol the server to which the follow is announced.
type Key struct{ FollowerID, FollowingID, ServerURL string }

func (f Follow) Key() Key { return Key{f.FollowerID, f.FollowingID, f.FollowerServerURL} }

// ErrCursor says that Follows did not give out the cursor.
var ErrCursor = errors.New("malformed cursor")

// Store is what follows need of their storage.
type Store interface {
	// RecordFollow writes f. A record of the same key stays as it is if it has the same id
	// or was recorded for a later job; else it is replaced.
	RecordFollow(ctx context.Context, f Follow) error
	// AcceptFollow sets Accepted and UpdatedAt only; found is false if there is no such
	// follow.
	AcceptFollow(ctx context.Context, k Key, at time.Time) (found bool, err error)
	// AcknowledgeFollow sets Acknowledged and UpdatedAt only; found as above.
	AcknowledgeFollow(ctx context.Context, k Key, at time.Time) (found bool, err error)
	// Follows pages through all follows, in no meaningful order. An empty cursor
	// asks for the first page; an empty next says that this is the last. A cursor
	// that Follows did not give out is ErrCursor.
	Follows(ctx context.Context, cursor string, limit int) (fs []Follow, next string, err error)
}

// Record writes the local record of a follow job before the job is sent. It writes none for other jobs
// and for payloads without a follow, or that delivery will refuse. The record has the time of the job,
// so that a late repetition does not replace a newer one.
func Record(ctx context.Context, store Store, a activity.Activity, now time.Time) error {
	if a.Protocol != activity.Sipher || a.Job != wire.DeliverFollow {
		return nil
	}
	p, err := wire.ParsePayload(a.Body)
	if err != nil || p.Following == nil {
		return nil
	}
	f, at := p.Following, a.CreatedAt
	if at.IsZero() {
		at = now
	}
	return store.RecordFollow(ctx, Follow{
		ID: f.ID, FollowerID: f.FollowerID, FollowingID: f.FollowingID,
		FollowerServerURL: activity.ServerName(f.FollowerServerURL), FollowingServerURL: f.FollowingServerURL,
		Accepted: f.Accepted, Acknowledged: f.Acknowledged, CreatedAt: f.CreatedAt,
		RecordedAt: at, UpdatedAt: now,
	})
}

// Effect says what an acknowledgement did.
type Effect string

// The effects.
const (
	Accepted     Effect = "follow accepted"
	Acknowledged Effect = "follow acknowledged"
	// Foreign: the acknowledgement names another follow than the job's. Without this check any
	// server that we send to could accept any follow.
	Foreign Effect = "acknowledgement names another follow and was ignored"
	// NoFollow: there is no record of the follow.
	NoFollow Effect = "no local follow for this acknowledgement"
)

// Apply applies a verified acknowledgement to the follow whose job was sent to serverURL.
func Apply(ctx context.Context, store Store, job *wire.Following, serverURL string, ack wire.FollowAck, now time.Time) (Effect, error) {
	if job == nil {
		return NoFollow, nil
	}
	if ack.FollowerID != job.FollowerID || ack.FollowingID != job.FollowingID {
		return Foreign, nil
	}
	set, effect := store.AcknowledgeFollow, Acknowledged
	if ack.Accepted != nil && *ack.Accepted {
		set, effect = store.AcceptFollow, Accepted
	}
	found, err := set(ctx, Key{ack.FollowerID, ack.FollowingID, serverURL}, now)
	if err != nil {
		return "", err
	}
	if !found {
		return NoFollow, nil
	}
	return effect, nil
}
