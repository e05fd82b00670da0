package ledger

import "fedpost/internal/activity"

// Merge joins the two records of one position: that of the chunk's worker, and that of
// the position's own worker. Usually the second follows the first. The two contradict
// each other if a claim has lapsed while a slow worker was still at work.
//
// A delivered record wins, because the server has accepted the activity. Another
// final state wins over one that is not final, but a later generation may have revived
// a dead recipient. Otherwise the later generation wins; of equal generations, the
// position's own record. The result always has the higher generation, by which stale
// messages are dropped.
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

// revived reports whether now is of a later generation than was, which is dead.
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
