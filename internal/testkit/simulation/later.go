package simulation

import (
	"fmt"
	"math/rand/v2"
)

// later adds what the simulation learnt later: batches, versions that supersede other versions, new
// keys. Like rare situations these have random numbers of their own, so seeds without them remain
// the same stories.
func (d *drawing) later() {
	rest := d.chances
	defer func() { d.chances = rest }()
	d.chances = chances{rand.New(rand.NewPCG(d.Seed, 13))}
	if d.is(0.15) {
		for range 1 + d.IntN(8) {
			d.batch()
		}
	}
	if d.is(0.15) {
		for n := range 1 + d.IntN(3) {
			d.subject(fmt.Sprint(n))
		}
	}
	if d.is(0.2) {
		d.rotations()
	}
	d.chances = chances{rand.New(rand.NewPCG(d.Seed, 42))}
	if d.is(0.12) {
		d.retries()
	}
}

func (d *drawing) batch() {
	at, number := d.within(d.span), d.n+1
	p := Post{Batch: number, Actor: d.IntN(actors)}
	if d.is(0.6) {
		p.Dedup, p.Patience = fmt.Sprint("batch ", number), 1+d.IntN(4)
	}
	if d.is(0.2) {
		p.Delay = d.between(minute, 2*day)
	}
	for range 2 + d.IntN(5) {
		p.Recipients, p.Priority = d.recipients(), pick(d.chances, "", "", "high", "low")
		d.add(at, p)
	}
}

func (d *drawing) subject(name string) {
	p := Post{Subject: name, Actor: d.IntN(actors), Recipients: d.recipients()}
	at := 3*minute + d.within(d.span)
	for range 2 + d.IntN(8) {
		if d.is(0.2) {
			p.Recipients = d.recipients()
		}
		d.add(at, p)
		at += d.between(minute, day)
	}
}

func (d *drawing) rotations() {
	at := 3*minute + d.within(d.span)
	for n := range 1 + d.IntN(4) {
		actor := d.IntN(actors)
		d.Acts = append(d.Acts, Act{At: at, Do: Rotate, N: actor, Key: n + 1})
		for range d.IntN(8) {
			// Some processes have the key opened, and sign something soon.
			d.add(at-2*minute+d.within(8*minute), Post{Actor: actor, Recipients: []Inbox{d.inbox()}})
		}
		at += hour + d.within(d.span)
	}
}
