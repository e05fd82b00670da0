package ledger

import "fedpost/internal/activity"

// Merge joins the two accounts of one position: what the chunk's worker wrote
// and what a worker of its own wrote. Usually the second follows the first;
// they contradict each other where a claim lapsed under a slow worker.
//
// That it was delivered is a fact and wins. Another final state wins over one
// that is not, except that a dead recipient may have been revived by a later
// generation. Otherwise the later generation wins, and the position's own
// account where they are level. The generation is the higher of the two in any
// case, because it is what drops stale messages.
func Merge(chunk, own Recipient) Recipient {
	r, other := own, chunk
	if chunkWins(chunk, own) {
		r, other = chunk, own
	}
	r.Generation = max(r.Generation, other.Generation)
	return r
}

func chunkWins(chunk, own Recipient) bool {
	a, b := weight(chunk.State), weight(own.State)
	switch {
	case revived(chunk, own):
		return false
	case revived(own, chunk):
		return true
	case a != b:
		return a > b
	}
	return chunk.Generation > own.Generation
}

// revived reports whether now is the account of a new life of what was dead.
func revived(was, now Recipient) bool {
	return was.State == activity.Dead && !now.State.Final() && now.Generation > was.Generation
}

// weight orders states by how certain they are to stay.
func weight(s activity.State) int {
	switch {
	case s == activity.Delivered:
		return 3
	case s == activity.Dead:
		return 1
	case s.Final():
		return 2
	}
	return 0
}
