package message

import (
	"fmt"

	"fedpost/internal/activity"
)

// Unit names what a delivery message is about: the whole of a chunk, or one of its
// positions.
type Unit struct {
	Activity activity.ID
	Chunk    int
	Position int // Whole for the chunk
	// Generation is that of the message that asks for a single position.
	Generation int
}

// Unit is what d, a delivery of an activity, is about.
func (d Delivery) Unit(id activity.ID) Unit { return Unit{id, d.Chunk, d.Position, d.Generation} }

// String is the unit's name in one word. It is also the deduplication key of the unit's
// message, so that a FIFO queue drops a second copy.
func (u Unit) String() string {
	return fmt.Sprintf("%s/%d/%d/%d", u.Activity, u.Chunk, u.Position, u.Generation)
}
