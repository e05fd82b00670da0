package siphertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"fedpost/internal/protocol/sipher/follow"
)

func (b *bed) follow(n int, at time.Time) follow.Follow {
	return follow.Follow{
		ID: fmt.Sprint("id", n), FollowerID: fmt.Sprint("alice", n), FollowingID: "bob",
		FollowerServerURL: b.url("b"), CreatedAt: "2026-05-06T14:17:40.000Z", RecordedAt: at, UpdatedAt: at,
	}
}

func (b *bed) testAcknowledgementsChangeOneFieldOfOneFollow() {
	for n := range 3 {
		if err := b.RecordFollow(b.ctx, b.follow(n, b.Now())); err != nil {
			b.t.Fatal(err)
		}
	}
	later := b.in(time.Minute)
	if found, err := b.AcceptFollow(b.ctx, b.follow(0, b.Now()).Key(), later); !found || err != nil {
		b.t.Errorf("accept: %v, %v", found, err)
	}
	if found, err := b.AcknowledgeFollow(b.ctx, b.follow(1, b.Now()).Key(), later); !found || err != nil {
		b.t.Errorf("acknowledge: %v, %v", found, err)
	}
	for name, k := range map[string]follow.Key{
		"another server":     {FollowerID: "alice0", FollowingID: "bob", ServerURL: b.url("b") + "/"},
		"another follower":   {FollowerID: "alice", FollowingID: "bob", ServerURL: b.url("b")},
		"parts run together": {FollowerID: "alice0bob", FollowingID: "", ServerURL: b.url("b")},
	} {
		if found, err := b.AcceptFollow(b.ctx, k, later); found || err != nil {
			b.t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	one, two, three := b.follow(0, b.Now()), b.follow(1, b.Now()), b.follow(2, b.Now())
	one.Accepted, one.UpdatedAt = true, later
	two.Acknowledged, two.UpdatedAt = true, later
	if d := cmp.Diff(map[string]follow.Follow{"id0": one, "id1": two, "id2": three}, b.follows()); d != "" {
		b.t.Error(d)
	}

	// Recording the same follow again keeps what the acknowledgement said; a new
	// follow between the same two begins anew.
	if err := b.RecordFollow(b.ctx, b.follow(0, later)); err != nil {
		b.t.Fatal(err)
	}
	fresh := b.follow(1, later)
	fresh.ID = "id1b"
	if err := b.RecordFollow(b.ctx, fresh); err != nil {
		b.t.Fatal(err)
	}
	// An older job that is recorded late, by a duplicate of its call or by a worker after an
	// outage, does not take the place of a newer one.
	if err := b.RecordFollow(b.ctx, b.follow(1, b.Now())); err != nil {
		b.t.Fatal(err)
	}
	if d := cmp.Diff(map[string]follow.Follow{"id0": one, "id1b": fresh, "id2": three}, b.follows()); d != "" {
		b.t.Error(d)
	}
}

func (b *bed) testFollowsArePagedWithoutLossOrRepetition() {
	const total = 57
	for n := range total {
		if err := b.RecordFollow(b.ctx, b.follow(n, b.Now())); err != nil {
			b.t.Fatal(err)
		}
	}
	for _, limit := range []int{0, 1, 7, 56, 57, 100} {
		seen := map[string]int{}
		cursor, pages := "", 0
		for {
			fs, next, err := b.Follows(b.ctx, cursor, limit)
			if err != nil || len(fs) > max(limit, 1) {
				b.t.Fatalf("limit %d: %d follows, %v", limit, len(fs), err)
			}
			for _, f := range fs {
				if f.FollowerServerURL == b.url("b") {
					seen[f.ID]++
				}
			}
			if pages++; next == "" || pages > 100*total {
				break
			}
			cursor = next
		}
		if len(seen) != total {
			b.t.Errorf("limit %d: %d follows in %d pages", limit, len(seen), pages)
		}
		for id, n := range seen {
			if n != 1 {
				b.t.Errorf("limit %d: %s %d times", limit, id, n)
			}
		}
	}
	if _, _, err := b.Follows(b.ctx, "?", 5); !errors.Is(err, follow.ErrCursor) {
		b.t.Errorf("bad cursor: %v", err)
	}
}

// follows returns the test's own follows by id.
func (b *bed) follows() map[string]follow.Follow {
	b.t.Helper()
	own := map[string]follow.Follow{}
	for cursor := ""; ; {
		fs, next, err := b.Follows(b.ctx, cursor, 100)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, f := range fs {
			if f.FollowerServerURL == b.url("b") {
				own[f.ID] = f
			}
		}
		if cursor = next; next == "" {
			return own
		}
	}
}
