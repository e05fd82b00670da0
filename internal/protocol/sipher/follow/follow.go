// Package follow is the local record of the follows that were sent out, and
// what their acknowledgements change in it.
//
// The record is written when the job is enqueued, before anything is sent: an
// acknowledgement comes within the very request that announces the follow, so
// later would be too late.
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
	RecordedAt         time.Time `json:"recordedAt"`
	UpdatedAt          time.Time `json:"updatedAt"`
}

// Key is what an acknowledgement is matched by. ServerURL is the follow's
// followerServerUrl, which in this protocol names the server that the follow
// is announced to: the job's serverUrl.
type Key struct{ FollowerID, FollowingID, ServerURL string }

// Key returns the key of f.
func (f Follow) Key() Key { return Key{f.FollowerID, f.FollowingID, f.FollowerServerURL} }

// ErrCursor says that a cursor is not one that Follows gave out.
var ErrCursor = errors.New("malformed cursor")

// Store is what follows need of their storage.
type Store interface {
	// RecordFollow writes f unless it is there with the same id: recording one
	// twice changes nothing, a new follow between the same two takes the place
	// of the old one.
	RecordFollow(ctx context.Context, f Follow) error
	// AcceptFollow sets Accepted, and nothing else but UpdatedAt; found is false
	// if there is no such follow.
	AcceptFollow(ctx context.Context, k Key, at time.Time) (found bool, err error)
	// AcknowledgeFollow sets Acknowledged likewise.
	AcknowledgeFollow(ctx context.Context, k Key, at time.Time) (found bool, err error)
	// Follows pages through all follows, in no meaningful order. The cursor of
	// the first page is empty, and so is next after the last. One that is none
	// of ours gives ErrCursor.
	Follows(ctx context.Context, cursor string, limit int) (fs []Follow, next string, err error)
}

// Record writes the local record that belongs to an activity, before it is
// sent. Activities other than follows, and payloads about no follow, have none;
// nor have those that can never be sent, which delivery will say.
func Record(ctx context.Context, store Store, a activity.Activity, now time.Time) error {
	if a.Protocol != activity.Sipher || a.Job != wire.DeliverFollow {
		return nil
	}
	p, err := wire.ParsePayload(a.Body)
	if err != nil || p.Following == nil {
		return nil
	}
	f := p.Following
	return store.RecordFollow(ctx, Follow{
		ID: f.ID, FollowerID: f.FollowerID, FollowingID: f.FollowingID,
		FollowerServerURL: activity.ServerName(f.FollowerServerURL), FollowingServerURL: f.FollowingServerURL,
		Accepted: f.Accepted, Acknowledged: f.Acknowledged, CreatedAt: f.CreatedAt,
		RecordedAt: now, UpdatedAt: now,
	})
}

// Effect says what an acknowledgement did.
type Effect string

// The effects.
const (
	Accepted     Effect = "follow accepted"
	Acknowledged Effect = "follow acknowledged"
	// Foreign: it names another follow than the job's. The protocol does not
	// bind an acknowledgement to a request, so without this check any server we
	// send to could accept any follow.
	Foreign Effect = "acknowledgement names another follow and was ignored"
	// NoFollow: there is no record of the follow.
	NoFollow Effect = "no local follow for this acknowledgement"
)

// Apply applies a verified acknowledgement to the follow of the job that it
// answers, sent to serverURL.
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
