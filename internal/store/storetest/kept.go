package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/keys"
	"fedpost/internal/message/agenda"
	"fedpost/internal/message/claimcheck"
)

var payloads = group{"payloads", []testCase{
	{"APayloadComesBackWhole", func(b *bed) {
		for _, size := range []int{0, 1, 100 << 10, 3 << 20} {
			ref, text := string(b.newID()), noise(size)
			n, err := claimcheck.Put(b.ctx, b, ref, text, b.in(time.Hour))
			b.must(err)
			again, err := claimcheck.Put(b.ctx, b, ref, text, b.in(time.Hour))
			b.must(err)
			got, err := claimcheck.Get(b.ctx, b, ref, n)
			b.must(err)
			if got != text || again != n {
				b.t.Errorf("%d bytes came back as %d, in %d and %d parts", len(text), len(got), n, again)
			}
		}
	}},
	{"AMissingOrExpiredPartIsNotFound", func(b *bed) {
		ref := string(b.newID())
		n, err := claimcheck.Put(b.ctx, b, ref, noise(1000), b.in(time.Hour))
		b.must(err)
		if _, err := b.Parts(b.ctx, ref, n+1); !errors.Is(err, claimcheck.ErrNotFound) {
			b.t.Errorf("a part too many: %v", err)
		}
		b.advance(time.Hour)
		if _, err := b.Parts(b.ctx, ref, n); !errors.Is(err, claimcheck.ErrNotFound) {
			b.t.Errorf("after its retention: %v", err)
		}
	}},
}}

var tasks = group{"tasks", []testCase{
	{"ATaskIsDueFromItsTimeUntilItIsDropped", func(b *bed) {
		t := b.task(time.Minute, "")
		b.must(b.PutTask(b.ctx, t))
		b.dueTasks()
		b.advance(time.Minute - time.Second)
		b.dueTasks()
		b.advance(time.Second)
		b.dueTasks(t)
		b.dueTasks(t)
		b.must(b.DropTasks(b.ctx, []agenda.Task{t}))
		b.dueTasks()
		b.must(b.DropTasks(b.ctx, []agenda.Task{t}))
		b.must(b.DropTasks(b.ctx, nil))
	}},
	{"PuttingATaskTwiceMakesOne", func(b *bed) {
		t := b.task(time.Minute, "")
		b.must(b.PutTask(b.ctx, t))
		b.must(b.PutTask(b.ctx, t))
		b.advance(time.Minute)
		b.dueTasks(t)
		b.must(b.DropTasks(b.ctx, []agenda.Task{t}))
		b.dueTasks()
	}},
	{"TasksOfAGroupAreDueInOrder", func(b *bed) {
		group := "group " + string(b.newID())
		var all []agenda.Task
		for i := range 20 {
			t := b.task(time.Duration(1+i/2)*time.Second, group)
			all = append(all, t)
		}
		for i := range all {
			b.must(b.PutTask(b.ctx, all[(i*7)%len(all)]))
		}
		b.advance(time.Minute)
		b.dueTasks(all...)
		b.must(b.DropTasks(b.ctx, all))
	}},
	{"ATaskAsLargeAsAMessageIsKept", func(b *bed) {
		t := b.task(0, "")
		t.Body = noise(claimcheck.PartSize)
		b.must(b.PutTask(b.ctx, t))
		b.dueTasks(t)
		b.must(b.DropTasks(b.ctx, []agenda.Task{t}))
	}},
	{"WhatWasAcceptedIsDueEvenAfterItsRetention", func(b *bed) {
		t := b.task(time.Minute, "")
		t.Forget = t.DueAt.Add(time.Hour)
		b.must(b.PutTask(b.ctx, t))
		b.advance(2 * time.Hour)
		b.dueTasks(t)
		b.must(b.DropTasks(b.ctx, []agenda.Task{t}))
	}},
}}

func (b *bed) task(in time.Duration, group string) agenda.Task {
	t := agenda.Task{ID: string(b.newID()), Queue: queue.Normal, Body: "body", DueAt: b.in(in), Forget: b.in(in + 24*time.Hour)}
	if group != "" {
		t.Queue, t.Group, t.Key = queue.Ordered, group, t.ID
	}
	b.tasks[t.ID] = true
	return t
}

// dueTasks checks which of this test's tasks are due, in their order within a group.
func (b *bed) dueTasks(want ...agenda.Task) {
	b.t.Helper()
	b.settle()
	var got []string
	for shard := range agenda.Shards {
		all, err := b.DueTasks(b.ctx, shard, b.Now(), 1000)
		b.must(err)
		for _, t := range all {
			if b.tasks[t.ID] {
				got = append(got, fmt.Sprintf("%d %+v", shard, utc(t)))
			}
		}
	}
	slices.SortFunc(want, func(a, b agenda.Task) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.ID, b.ID))
	})
	var expected []string
	for _, t := range want {
		expected = append(expected, fmt.Sprintf("%d %+v", t.Shard(), utc(t)))
	}
	if !slices.Equal(got, expected) {
		b.t.Errorf("due are %.2000v, want %.2000v", got, expected)
	}
}

func utc(t agenda.Task) agenda.Task {
	t.DueAt, t.Forget = t.DueAt.UTC(), t.Forget.UTC()
	return t
}

var signingKeys = group{"keys", []testCase{
	{"AKeyComesBackAsItWasPut", func(b *bed) {
		k := b.key()
		b.must(b.PutKey(b.ctx, k, false))
		b.has(k)
	}},
	{"AKeyIsReplacedOnlyIfAskedFor", func(b *bed) {
		first := b.key()
		second := first
		second.PublicPEM, second.Private = "other", []byte{4, 5}
		b.must(b.PutKey(b.ctx, first, true))
		if err := b.PutKey(b.ctx, second, false); !errors.Is(err, keys.ErrExists) {
			b.t.Errorf("got %v, want %v", err, keys.ErrExists)
		}
		b.has(first)
		b.must(b.PutKey(b.ctx, first, false)) // a repetition of the same write
		b.must(b.PutKey(b.ctx, second, true))
		b.has(second)
	}},
	{"KeysAreListedByIDPageByPage", func(b *bed) {
		var want []keys.Public
		for range 7 {
			k := b.key()
			b.must(b.PutKey(b.ctx, k, false))
			b.must(b.PutKey(b.ctx, k, true))
			want = append(want, keys.Public{ID: k.ID, Type: k.Type, PublicPEM: k.PublicPEM})
		}
		gone := b.key()
		b.must(b.PutKey(b.ctx, gone, false))
		b.must(b.DeleteKey(b.ctx, gone.ID))
		for _, limit := range []int{1, 3, 1000} {
			seen := map[string]keys.Public{}
			last := ""
			for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
				ks, next, err := b.ListKeys(b.ctx, cursor, limit)
				b.must(err)
				for _, k := range ks {
					if len(k.ID) < 200 && k.ID <= last {
						b.t.Errorf("%s is listed after %s", k.ID, last)
					}
					seen[k.ID], last = k, k.ID
				}
				cursor = next
			}
			for _, k := range want {
				if seen[k.ID] != k {
					b.t.Errorf("pages of %d: %s is listed as %+v", limit, k.ID, seen[k.ID])
				}
			}
			if _, there := seen[gone.ID]; there {
				b.t.Errorf("a deleted key is listed")
			}
		}
		if _, _, err := b.ListKeys(b.ctx, "no cursor!", 1); !errors.Is(err, keys.ErrBadCursor) {
			b.t.Errorf("got %v", err)
		}
	}},
	{"ADeletedKeyIsGoneWithBothHalves", func(b *bed) {
		k := b.key()
		b.must(b.PutKey(b.ctx, k, false))
		for range 2 {
			b.must(b.DeleteKey(b.ctx, k.ID))
		}
		if _, err := b.Key(b.ctx, k.ID); !errors.Is(err, keys.ErrNotFound) {
			b.t.Errorf("sealed half: %v", err)
		}
		if _, err := b.PublicKey(b.ctx, k.ID); !errors.Is(err, keys.ErrNotFound) {
			b.t.Errorf("public half: %v", err)
		}
		b.must(b.PutKey(b.ctx, k, false)) // the id is free again
		b.has(k)
	}},
	{"AKeyNobodyPutIsNotFound", func(b *bed) {
		if _, err := b.Key(b.ctx, string(b.newID())); !errors.Is(err, keys.ErrNotFound) {
			b.t.Errorf("got %v", err)
		}
		if _, err := b.PublicKey(b.ctx, string(b.newID())); !errors.Is(err, keys.ErrNotFound) {
			b.t.Errorf("public half: got %v", err)
		}
	}},
	{"AKeyDoesNotExpire", func(b *bed) {
		k := b.key()
		b.must(b.PutKey(b.ctx, k, false))
		b.advance(100 * 365 * 24 * time.Hour)
		b.has(k)
	}},
}}

func (b *bed) key() keys.Sealed {
	return keys.Sealed{
		ID: "https://social.example/" + string(b.newID()) + "#main-key", Type: keys.Ed25519,
		PublicPEM: "public", Private: []byte{0, 1, 255}, CreatedAt: b.Now(),
	}
}

func (b *bed) has(want keys.Sealed) {
	b.t.Helper()
	got, err := b.Key(b.ctx, want.ID)
	b.must(err)
	if got.ID != want.ID || got.Type != want.Type || got.PublicPEM != want.PublicPEM ||
		!slices.Equal(got.Private, want.Private) || !got.CreatedAt.Equal(want.CreatedAt) {
		b.t.Errorf("key is %+v, want %+v", got, want)
	}
	shown, err := b.PublicKey(b.ctx, want.ID)
	b.must(err)
	if shown != (keys.Public{ID: want.ID, Type: want.Type, PublicPEM: want.PublicPEM}) {
		b.t.Errorf("the public half is %+v, want that of %+v", shown, want)
	}
}
