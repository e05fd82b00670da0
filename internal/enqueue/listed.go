package enqueue

import "fedpost/internal/ledger"

// listed are the call's entries in the lists of activities. Activities without a sender,
// such as Sipher jobs, are in no list: they are found by fedpost's id only.
func (p *plan) listed(rs []ledger.Record) (ls []ledger.Listed) {
	for i, it := range p.items {
		if l := it.listed(rs[i]); l.Sender != "" && max(len(l.Sender), len(l.Actor)) <= longestListed {
			ls = append(ls, l)
		}
	}
	return ls
}

// The longest ids in lists, in bytes. No list is searched by an object's id, so that one must not
// cost a second write unit.
const (
	longestListed = 2048
	longestObject = 300
)

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
