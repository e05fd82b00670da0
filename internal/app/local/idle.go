package local

import "fedpost/internal/app/topology"

// Bounds of the connections to other servers that a process keeps unused.
const (
	leastIdle = 256
	mostIdle  = 1024
)

// Idle is how many unused connections to other servers a process keeps that may have so many
// files open: an eighth of them, as the others are for the deliveries under way and for
// clients. With a connection for each server an activity costs a third of what it costs with
// a new TLS connection each time.
//
// A process that may have few files open keeps a quarter of them at most. 0 files means that
// the limit is not known.
func Idle(files int) int {
	least := leastIdle
	if files > 0 {
		least = min(least, files/4)
	}
	return max(least, min(files/8, mostIdle))
}

// Deliveries is how many deliveries of each queue a process has under way at once that may have
// so many files open: those of all queues take half of the files at most. Else deliveries to
// hosts that hang would leave no file to let a client in with, who then learns nothing.
func Deliveries(files int) int {
	if files == 0 {
		return PerQueue
	}
	return max(2, min(PerQueue, files/2/len(topology.Sources)))
}

// leastGuests is how many connections of clients are open at once, however few files there
// may be.
const leastGuests = 8

// guests is how many connections of clients are open at once in a process that may have so
// many files open: a quarter of them at most. Else clients that do nothing would leave no file
// to let another one in with, and none to reach other servers with.
func guests(files int) int {
	if files == 0 {
		return Connections
	}
	return max(leastGuests, min(Connections, files/4))
}
