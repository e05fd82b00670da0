package simulation

// What things may cost. Each is a promise of the design, or a round number above
// what was measured of sound stories.
const (
	// mostPosts within a day to a host that takes none.
	mostPosts = 50
	// mostServerWrites of a host's state within a minute by each process: one a
	// second.
	mostServerWrites = 60
	// mostDropped activities in a signature form that a host never asked for: while
	// it says 403 to the form that it takes, it cannot be known.
	mostDropped = 3
	// mostCalls one after another between an answer and its record.
	mostCalls = 5
	// mostReceives of a delivery where only servers make trouble. A server that throttles for
	// a week costs most: nine pauses that double from 2 minutes, one of 12 hours for each half
	// day that is left, and the first tries.
	mostReceives = 30
)
