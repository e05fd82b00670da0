package ledger

import (
	"fedpost/internal/activity"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// SpotsOf returns the parking spots that recipients of an activity without an ordering key may
// have. A recipient that was parked before its first attempt has no record of its lot, so both
// possible lots are returned.
func SpotsOf(r Record, chunks []Chunk) (all []parking.Spot) {
	for _, c := range chunks {
		for p, t := range c.Targets {
			u := message.Unit{Activity: r.ID, Chunk: c.Number, Position: p, Generation: parking.FirstGeneration}
			rec, recorded := c.Recipients[p]
			switch {
			case !recorded:
				for _, key := range []string{circuit.HostKey(t.Host()), circuit.InboxKey(t.Inbox)} {
					all = append(all, parking.Spot{Key: key, Unit: u})
				}
			case rec.State == activity.Parked:
				u.Generation = rec.Generation
				all = append(all, parking.Spot{Key: lotKey(t.Inbox, rec.Lot), Unit: u})
			}
		}
	}
	return all
}
