//go:build race

package simulation

// underRace: the race detector starts goroutines in an order of its own, so the same
// seed is another story each time, and the simulation's own books, which rely on one
// goroutine at a time, look like races.
const underRace = true
