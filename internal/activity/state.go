package activity

type State string

// Final states never change again, but a retry on request gives failed and dead recipients fresh attempts.
const (
	Queued     State = "queued"     // not tried yet
	Retrying   State = "retrying"   // failed for now, its next try is on a queue
	Parked     State = "parked"     // waits in the table for its host to come back
	Delivered  State = "delivered"  // answered 2xx
	Failed     State = "failed"     // refused for good
	Dead       State = "dead"       // retries exhausted: in the dead-letter queue
	Expired    State = "expired"    // not worth delivering any more
	Redundant  State = "redundant"  // the inbox has this state already
	Superseded State = "superseded" // a newer activity replaces it
	Cancelled  State = "cancelled"  // stopped by the caller
)

// States lists all states.
var States = []State{Queued, Retrying, Parked, Delivered, Failed, Dead, Expired, Redundant, Superseded, Cancelled}

// Final reports whether the recipient needs no more work.
func (s State) Final() bool {
	switch s {
	case Delivered, Failed, Dead, Expired, Redundant, Superseded, Cancelled:
		return true
	}
	return false
}
