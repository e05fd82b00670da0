package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"fedpost/internal/servers/circuit"
)

var servers = group{"servers", []testCase{
	{"AStateIsReadAsItWasSaved", func(b *bed) {
		st := b.server()
		saved, err := b.SaveServer(b.ctx, st)
		b.must(err)
		if saved.Version == "" {
			b.t.Error("no version")
		}
		st.Version = saved.Version
		b.same(st, saved)
		other := circuit.InboxKey("https://" + strings.Repeat("long.", 300) + "example/inbox")
		states, err := b.Servers(b.ctx, st.Key, other, st.Key)
		b.must(err)
		b.same(map[string]circuit.State{st.Key: st}, states)
	}},
	{"AStateOfALongNameIsItsOwn", func(b *bed) {
		one, two := b.server(), b.server()
		one.Key = circuit.InboxKey("https://" + string(b.newID()) + strings.Repeat("/long", 500))
		two.Key = one.Key + "/2"
		var err error
		one, err = b.SaveServer(b.ctx, one)
		b.must(err)
		two, err = b.SaveServer(b.ctx, two)
		b.must(err)
		states, err := b.Servers(b.ctx, one.Key, two.Key)
		b.must(err)
		b.same(map[string]circuit.State{one.Key: one, two.Key: two}, states)
	}},
	{"ASaveOnAnOldVersionIsRefused", func(b *bed) {
		first, err := b.SaveServer(b.ctx, b.server())
		b.must(err)
		second := first
		second.Streak = 2
		second, err = b.SaveServer(b.ctx, second)
		b.must(err)
		created := first
		created.Version = ""
		for _, old := range []circuit.State{first, created} {
			old.Streak = 99
			if _, err := b.SaveServer(b.ctx, old); !errors.Is(err, circuit.ErrChanged) {
				b.t.Errorf("SaveServer on %q: %v", old.Version, err)
			}
		}
		states, err := b.Servers(b.ctx, first.Key)
		b.must(err)
		b.same(second, states[first.Key])
	}},
	{"NoIncrementOf64WorkersIsLost", func(b *bed) {
		key := b.server().Key
		var wg sync.WaitGroup
		errs := make([]error, 64)
		for i := range errs {
			wg.Go(func() { errs[i] = b.increment(key) })
		}
		wg.Wait()
		b.must(errors.Join(errs...))
		states, err := b.Servers(b.ctx, key)
		b.must(err)
		if n := states[key].Streak; n != len(errs) {
			b.t.Errorf("the streak is %d", n)
		}
	}},
	{"AForgottenStateIsGone", func(b *bed) {
		st := b.server()
		st.Forget = b.in(time.Hour)
		_, err := b.SaveServer(b.ctx, st)
		b.must(err)
		b.advance(time.Hour)
		states, err := b.Servers(b.ctx, st.Key)
		b.must(err)
		if len(states) != 0 {
			b.t.Errorf("the states are %+v, want none", states)
		}
		b.settle()
		if due := b.due(st.Key, 24*time.Hour); due != nil { // until a step takes it out of the index
			due.CheckAt = time.Time{}
			_, err := b.SaveServer(b.ctx, *due)
			b.must(err)
			b.settle()
			if due = b.due(st.Key, 24*time.Hour); due != nil {
				b.t.Errorf("due: %+v", due)
			}
		}
		st.Forget = b.in(time.Hour)
		_, err = b.SaveServer(b.ctx, st)
		b.must(err)
	}},
	{"AStateIsDueFromItsCheckOn", func(b *bed) {
		early, err := b.SaveServer(b.ctx, b.server())
		b.must(err)
		late := b.server()
		late.CheckAt = b.in(time.Hour)
		late, err = b.SaveServer(b.ctx, late)
		b.must(err)
		b.settle()
		if due := b.due(late.Key, time.Hour-time.Millisecond); due != nil {
			b.t.Errorf("due too early: %+v", due)
		}
		b.same(&early, b.due(early.Key, 10*time.Minute))
		b.same(&late, b.due(late.Key, time.Hour))
		late.CheckAt = time.Time{}
		_, err = b.SaveServer(b.ctx, late)
		b.must(err)
		b.settle()
		if due := b.due(late.Key, 24*time.Hour); due != nil {
			b.t.Errorf("due without a check: %+v", due)
		}
	}},
	{"AllStatesAreListedOnceWhateverTheirPhase", func(b *bed) {
		want := map[string]circuit.State{}
		for i := range 40 {
			st := b.server()
			switch i % 4 {
			case 1: // nothing is due of those
				st.Phase, st.CheckAt, st.Forget = circuit.Blocked, time.Time{}, time.Time{}
			case 2:
				st.Phase, st.CheckAt = circuit.Gone, time.Time{}
			case 3:
				st.Phase, st.Key = circuit.Healthy, circuit.InboxKey("https://"+strings.Repeat("long.", 60)+string(b.newID())+".example/inbox")
			}
			saved, err := b.SaveServer(b.ctx, st)
			b.must(err)
			want[st.Key] = saved
		}
		forgotten := b.server()
		forgotten.Forget = b.Now()
		_, err := b.SaveServer(b.ctx, forgotten)
		b.must(err)
		for _, limit := range []int{1, 7, 40, 10_000} {
			got := map[string]circuit.State{}
			for cursor := ""; ; {
				page, next, err := b.ListServers(b.ctx, cursor, limit)
				b.must(err)
				if len(page) > limit {
					b.t.Fatalf("%d states on a page of %d", len(page), limit)
				}
				for _, st := range page {
					if _, twice := got[st.Key]; twice {
						b.t.Errorf("limit %d: %s is listed twice", limit, st.Key)
					}
					if _, mine := want[st.Key]; mine || st.Key == forgotten.Key {
						got[st.Key] = st
					}
				}
				if cursor = next; next == "" {
					break
				}
			}
			b.same(want, got)
		}
		for _, cursor := range []string{"?", "64 x", "-1 x", "x 1"} {
			if _, _, err := b.ListServers(b.ctx, cursor, 5); !errors.Is(err, circuit.ErrCursor) {
				b.t.Errorf("cursor %q: %v", cursor, err)
			}
		}
	}},
}}

func (b *bed) server() circuit.State {
	return circuit.State{
		Key: circuit.HostKey(string(b.newID()) + ".example"), Phase: circuit.Unhealthy, LastEvent: circuit.Unhealthy, Since: b.Now(), Why: "503 <&>",
		DownSince: b.Now(), Streak: 1, Window: circuit.Window{Start: b.Now(), Total: 3, Failures: 2},
		Parked: true, CheckAt: b.in(5 * time.Minute), Forget: b.in(30 * 24 * time.Hour),
	}
}

func (b *bed) increment(key string) error {
	for range 1000 {
		states, err := b.Servers(b.ctx, key)
		if err != nil {
			return err
		}
		st := states[key]
		st.Key, st.Phase = key, circuit.Healthy
		st.Streak++
		if _, err = b.SaveServer(b.ctx, st); err == nil || !errors.Is(err, circuit.ErrChanged) {
			return err
		}
	}
	return fmt.Errorf("%s kept changing", key)
}

// due returns the state of key if it is due in d.
func (b *bed) due(key string, d time.Duration) *circuit.State {
	b.t.Helper()
	for shard := range circuit.Shards {
		states, err := b.DueServers(b.ctx, shard, b.in(d), 10000)
		b.must(err)
		for _, st := range states {
			if st.Key == key {
				return &st
			}
		}
	}
	return nil
}
