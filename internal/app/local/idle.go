package local

import "fedpost/internal/app/topology"

// Bounds of the connections to other servers that a process keeps unused.
const (
	leastIdle = 256
	mostIdle  = 1024
)

// Idle is how many unused connections to other servers a process keeps, for its limit of open
// files (0: not known): an eighth of them, or with few files a quarter. A kept connection saves
// two thirds of a delivery's cost.
func Idle(files int) int {
	least := leastIdle
	if files > 0 {
		least = min(least, files/4)
	}
	return max(least, min(files/8, mostIdle))
}

// Deliveries is how many deliveries of each queue a process has under way at once, for its limit
// of open files: those of all queues use at most half of the files, so that hosts that hang
// leave files for clients.
func Deliveries(files int) int {
	if files == 0 {
		return PerQueue
	}
	return max(2, min(PerQueue, files/2/len(topology.Sources)))
}

const leastClients = 8

// clients is how many connections of clients are open at once, for a limit of open files: at
// most a quarter of them, so that idle clients leave files for other connections.
func clients(files int) int {
	if files == 0 {
		return Connections
	}
	return max(leastClients, min(Connections, files/4))
}
