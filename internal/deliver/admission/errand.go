package admission

import "container/list"

// errand is an activity of which something waits or is under way.
//
// Of an activity with 50,000 recipients hundreds of attempts wait at any time, and a note to one
// recipient would wait for them. So an activity of which nothing is under way comes first, with
// every second place and with every second message that gets memory: neither a flood of small
// activities nor a large one holds up the other by more than half.
type errand struct {
	under   int           // attempts
	tickets int           // messages in memory, or waiting for it
	waiting list.List     // of *Attempt
	idle    *list.Element // in plan.idle, if attempts wait and none is under way
}

// errand is the one of an activity.
func (p *plan) errand(activity string) *errand {
	e, ok := p.errands[activity]
	if !ok {
		e = &errand{}
		p.errands[activity] = e
	}
	return e
}

// settle notes whether something of an activity is under way, and forgets one of which nothing is
// left.
func (p *plan) settle(activity string) {
	e := p.errands[activity]
	switch idle := e.waiting.Len() > 0 && e.under == 0; {
	case idle && e.idle == nil:
		e.idle = p.idle.PushBack(e)
	case !idle && e.idle != nil:
		p.idle.Remove(e.idle)
		e.idle = nil
	}
	if e.under+e.tickets+e.waiting.Len() == 0 {
		delete(p.errands, activity)
	}
}

// looks is how many activities are looked at for one place.
const looks = 8

// firstOfIdle is an attempt of an activity of which nothing is under way, at a prompt host that has
// a place for it; nil: none was found. Among other hosts who has held least is next in any case.
func (p *plan) firstOfIdle() *Attempt {
	for range min(looks, p.idle.Len()) {
		el := p.idle.Front()
		a := el.Value.(*errand).waiting.Front().Value.(*Attempt)
		if h := a.host; h.class == prompt && p.open(prompt) && p.shared(h) && p.fits(a) {
			return a
		}
		p.idle.MoveToBack(el)
	}
	return nil
}
