package admission

import "container/list"

// workload is what waits or is under way of one activity.
//
// An activity with 50,000 recipients has hundreds of attempts that wait at any time. An
// activity with one recipient must not wait for them. So every second place, and memory for
// every second message, goes to an activity with nothing under way, if there is one.
type workload struct {
	under   int           // attempts
	tickets int           // messages in memory, or waiting for memory
	waiting list.List     // of *Attempt
	idle    *list.Element // in plan.idle; nil: nothing waits, or something is under way
}

func (p *plan) workload(activity string) *workload {
	e, ok := p.workloads[activity]
	if !ok {
		e = &workload{}
		p.workloads[activity] = e
	}
	return e
}

// settle updates plan.idle, and forgets an activity of which nothing is left.
func (p *plan) settle(activity string) {
	e := p.workloads[activity]
	switch idle := e.waiting.Len() > 0 && e.under == 0; {
	case idle && e.idle == nil:
		e.idle = p.idle.PushBack(e)
	case !idle && e.idle != nil:
		p.idle.Remove(e.idle)
		e.idle = nil
	}
	if e.under+e.tickets+e.waiting.Len() == 0 {
		delete(p.workloads, activity)
	}
}

// looks bounds the activities that are looked at for one place.
const looks = 8

// firstOfIdle is an attempt of an activity with nothing under way, at a prompt host that has a
// place; nil if none is found. Among other hosts the one that has held least is next anyway.
func (p *plan) firstOfIdle() *Attempt {
	for range min(looks, p.idle.Len()) {
		el := p.idle.Front()
		a := el.Value.(*workload).waiting.Front().Value.(*Attempt)
		if h := a.host; h.class == prompt && p.free(h) > 0 && p.processors(prompt) > 0 && p.shared(h) && p.fits(a) {
			return a
		}
		p.idle.MoveToBack(el)
	}
	return nil
}
