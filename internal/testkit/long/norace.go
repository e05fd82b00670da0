//go:build !race

package long

// UnderRace: the race detector watches this process.
const UnderRace = false
