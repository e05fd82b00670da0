package local

// Bounds of the connections to other servers that a process keeps unused.
const (
	leastIdle = 256
	mostIdle  = 1024
)

// Idle is how many unused connections to other servers a process keeps that may have so many
// files open: an eighth of them, as the others are for the deliveries under way and for
// clients. With a connection for each server an activity costs a third of what it costs with
// a new TLS connection each time.
func Idle(files int) int { return max(leastIdle, min(files/8, mostIdle)) }
