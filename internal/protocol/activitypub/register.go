package activitypub

import (
	"fedpost/internal/activity"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/retry"
)

// Register returns the protocol's registration. p may be nil in processes that send nothing.
func Register(p *Protocol, policy retry.Policy) protocol.Protocol {
	r := protocol.Protocol{
		Name: activity.ActivityPub,
		Intake: protocol.Intake{
			Body: protocol.JSON, Missing: "give the activity to deliver, a JSON object",
			Inspector: inspector{}, Fields: []protocol.Field{protocol.KeyID}, Headers: true,
		},
		Delivery: protocol.Delivery{Policy: policy, Wait: outbound.MaxWait},
	}
	if p != nil {
		r.Delivery.Sender = p
	}
	return r
}
