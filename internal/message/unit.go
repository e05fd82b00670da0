package message

import (
	"fmt"

	"fedpost/internal/activity"
)

// Unit names what a delivery message is about: a whole chunk, or one of its positions.
type Unit struct {
	Activity activity.ID
	Chunk    int
	Position int // Whole for the chunk
	// Generation is that of the message that asks for a single position.
	Generation int
}

// Unit is what d, a delivery of an activity, is about.
func (d Delivery) Unit(id activity.ID) Unit { return Unit{id, d.Chunk, d.Position, d.Generation} }

// String is also the deduplication key of the unit's message, so that a FIFO queue drops a second copy.
func (u Unit) String() string {
	return fmt.Sprintf("%s/%d/%d/%d", u.Activity, u.Chunk, u.Position, u.Generation)
}

// epoch is how many generations there are from one retry on request to the next: more than a delivery can
// be parked in seven days.
const epoch = 10_000

// NextEpoch is the generation of the message that gives a recipient fresh attempts on request. No other
// message of the recipient has such a generation.
func NextEpoch(generation int) int { return (generation/epoch + 1) * epoch }

// LaterEpoch reports whether somebody asked for fresh attempts between two generations.
func LaterEpoch(now, was int) bool { return now/epoch > was/epoch }
