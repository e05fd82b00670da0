package ledger

import (
	"fedpost/internal/activity"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// ParkedIDs returns the ids under which recipients of an activity without an ordering key may be
// parked. A recipient that was parked before its first attempt has no record of its lot, so both
// possible lots are returned.
func ParkedIDs(r Record, chunks []Chunk) (all []parking.ID) {
	for _, c := range chunks {
		for p, t := range c.Targets {
			u := message.Unit{Activity: r.ID, Chunk: c.Number, Position: p, Generation: parking.FirstGeneration}
			rec, recorded := c.Recipients[p]
			switch {
			case !recorded:
				for _, key := range []string{circuit.HostKey(t.Host()), circuit.InboxKey(t.Inbox)} {
					all = append(all, parking.ID{Key: key, Unit: u})
				}
			case rec.State == activity.Parked:
				u.Generation = rec.Generation
				all = append(all, parking.ID{Key: lotKey(t.Inbox, rec.Lot), Unit: u})
			}
		}
	}
	return all
}
