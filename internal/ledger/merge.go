package ledger

import (
	"fedpost/internal/activity"
	"fedpost/internal/message"
)

// Merge joins the two records of one position: that of the chunk's worker, and that of
// the position's own worker. Usually the second follows the first. The two contradict
// each other if a claim has lapsed while a slow worker was still at work.
//
// A delivered record wins, because the server has accepted the activity. Another
// final state wins over one that is not final, but a later generation may have revived
// a recipient that was dead or, on request, one that had failed. Otherwise the later generation
// wins; of equal generations, the position's own record. The result always has the higher
// generation, by which stale messages are dropped.
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

// revived reports whether now came from fresh attempts after was: now is not final, or it is final
// again after a retry on request.
func revived(was, now Recipient) bool {
	return was.RevivedBy(now.Generation) && (!now.State.Final() || message.LaterEpoch(now.Generation, was.Generation))
}

// RevivedBy reports whether a message of a generation gives r, which is final, fresh attempts. Any
// later message does so for a dead recipient. A failed one, whose server has refused the activity,
// needs a retry on request (message.NextEpoch).
func (r Recipient) RevivedBy(generation int) bool {
	switch r.State {
	case activity.Dead:
		return generation > r.Generation
	case activity.Failed:
		return message.LaterEpoch(generation, r.Generation)
	}
	return false
}

// weight orders states: the state of higher weight wins.
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
