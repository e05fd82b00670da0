package storetest

import (
	"context"
	"errors"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/ratelimit"
	"fedpost/internal/store"
)

var clients = group{"clients", []testCase{
	{"AClientThatRepeatsAWriteDoesNotConflictWithItself", func(b *bed) {
		for _, tells := range []bool{true, false} {
			st := store.New(echo{b.table, tells}, b.Now)
			r := b.newRecord(3)
			b.must(st.CreateActivity(b.ctx, r))
			d := b.derived()
			if _, created, err := st.CreateOrdered(b.ctx, d.at(1), d.id(0), b.in(-time.Minute), false); err != nil || !created {
				b.t.Errorf("CreateOrdered: created %v, %v", created, err)
			}
			w := &work{bed: b, id: r.ID}
			for _, unit := range units {
				u := unit(w)
				c, err := st.Claim(b.ctx, u, w.inspect(u), "worker", b.in(lease))
				b.must(err)
				b.must(st.Record(b.ctx, &c, []ledger.Recipient{w.outcomeOf(1, activity.Retrying, 1)}, false))
				b.must(st.Record(b.ctx, &c, nil, true))
			}
			b.must(st.CancelActivity(b.ctx, r.ID))
			server, err := st.SaveServer(b.ctx, b.server())
			b.must(err)
			_, err = st.SaveServer(b.ctx, server)
			b.must(err)
			_, err = st.SaveLimit(b.ctx, ratelimit.Limit{Host: "h" + string(b.newID()) + ".example", PerMinute: 1, Forget: b.in(time.Hour)})
			b.must(err)
		}
	}},
	{"ACallerBeforeTheTurnDoesNotPassOneThatCameBack", func(b *bed) {
		d := b.derived()
		second := d.at(2)
		d.create(second, 1, true)
		b.must(b.DropActivity(b.ctx, second.ID))
		late := &intruder{Table: b.table, do: func() { b.must(b.CreateActivity(b.ctx, second)) }}
		got, created, err := store.New(late, b.Now).CreateOrdered(b.ctx, d.at(1), d.id(0), b.in(-time.Minute), false)
		b.must(err)
		if created {
			b.t.Error("two activities of one key")
		}
		b.same(second, got)
	}},
}}

// echo is a client that lost the answer to every write, and repeats it. It returns the stored item
// of a conflict, or does not.
type echo struct {
	table.Table
	tells bool
}

func (e echo) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	if err := e.Table.Put(ctx, it, cond); err != nil {
		return err
	}
	err := e.Table.Put(ctx, it, cond)
	var conflict *table.ConflictError
	if errors.As(err, &conflict) && !e.tells {
		return &table.ConflictError{Key: conflict.Key}
	}
	return err
}

// intruder writes something right before the first transaction.
type intruder struct {
	table.Table
	do func()
}

func (i *intruder) Transact(ctx context.Context, ops []table.Op) error {
	if do := i.do; do != nil {
		i.do = nil
		do()
	}
	return i.Table.Transact(ctx, ops)
}
