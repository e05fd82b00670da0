package enqueue

import "fedpost/internal/ledger"

// listed is what the lists of activities say of the call. Activities without a sender,
// such as jobs of Sipher, are found by the id that fedpost gave them only.
func (p *plan) listed(rs []ledger.Record) (ls []ledger.Listed) {
	for i, it := range p.items {
		if l := it.listed(rs[i]); l.Sender != "" && max(len(l.Sender), len(l.Actor)) <= longestListed {
			ls = append(ls, l)
		}
	}
	return ls
}

// longestListed is the longest id that lists have, in bytes. An entry with an id, an actor
// and a key of usual lengths takes one write unit.
const longestListed = 2048

// longestObject is the longest id of an object that lists have, in bytes: nothing is found
// by it, so it shall not cost a unit more.
const longestObject = 300

func (it item) listed(r ledger.Record) ledger.Listed {
	l := ledger.Listed{
		ID: r.ID, ActivityID: it.said.ID, Sender: document(it.said.Actor), Actor: it.said.Actor, Type: it.said.Type, KeyID: it.KeyID,
		Object: it.said.Object, Bytes: len(*it.Body), CreatedAt: r.CreatedAt, Forget: r.Forget,
	}
	if it.KeyID != "" && !keyOf(it.KeyID, l.Actor) {
		l.Sender = document(it.KeyID)
	}
	if len(l.ActivityID) > longestListed {
		l.ActivityID = ""
	}
	if len(l.Object) > longestObject {
		l.Object = ""
	}
	return l
}
