package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// book is a ledger and a lot with one activity.
type book struct {
	record ledger.Record
	chunks []ledger.Chunk
	parked map[parking.ID]bool
	dues   map[parking.ID]time.Time
	asked  int // ids looked for
}

// newBook has an activity to n inboxes in chunks of size, of which every third
// stands for two recipients.
func newBook(n, size int) *book {
	b := &book{
		record: ledger.Record{ID: "01M7YQZXC038A60FQ34D193H4C", Targets: n, Chunk: size, CreatedAt: now.Add(-time.Minute)},
		parked: map[parking.ID]bool{},
	}
	for i := range n {
		if i%size == 0 {
			b.chunks = append(b.chunks, ledger.Chunk{Number: i / size, Recipients: map[int]ledger.Recipient{}})
		}
		t := activity.Target{Inbox: fmt.Sprintf("https://h%d.example/inbox", i), Stands: 1}
		if i%3 == 2 {
			t.Stands = 2
		}
		b.record.Recipients += t.Stands
		b.chunks[i/size].Targets = append(b.chunks[i/size].Targets, t)
	}
	return b
}

func (b *book) Activity(_ context.Context, id activity.ID) (ledger.Record, error) {
	if id != b.record.ID {
		return ledger.Record{}, ledger.ErrNotFound
	}
	return b.record, nil
}

func (b *book) Chunks(_ context.Context, _ ledger.Record, first, last int) ([]ledger.Chunk, error) {
	return b.chunks[first : last+1], nil
}

func (b *book) IsParked(_ context.Context, ids []parking.ID) (map[parking.ID]bool, error) {
	taken := map[parking.ID]bool{}
	for _, s := range ids {
		if b.asked++; b.parked[s] {
			taken[s] = true
		}
	}
	return taken, nil
}

func (b *book) ParkedInGroup(_ context.Context, key, group string) (map[parking.ID]time.Time, error) {
	taken := map[parking.ID]time.Time{}
	for s := range b.parked {
		if s.Key == key && s.Group == group {
			taken[s] = b.dues[s]
		}
	}
	return taken, nil
}

// set records something of the i-th target.
func (b *book) set(i int, r ledger.Recipient) {
	c := &b.chunks[i/b.record.Chunk]
	c.Touched = true
	c.Recipients[i%b.record.Chunk] = r
}

// park parks the i-th target under one of its keys, unrecorded.
func (b *book) park(i int, key func(inbox string) string) {
	c, p := i/b.record.Chunk, i%b.record.Chunk
	s := parking.ID{Key: key(b.chunks[c].Targets[p].Inbox), Unit: message.Unit{Activity: b.record.ID, Chunk: c, Position: p, Generation: parking.FirstGeneration}}
	if b.record.OrderingKey != "" {
		s.Group = message.GroupOf(activity.Activity{Options: activity.Options{OrderingKey: b.record.OrderingKey}}, b.chunks[c].Targets[p].Host())
		s.Sequence = "00000000000000000042"
	}
	b.parked[s] = true
}

func byHost(inbox string) string  { return circuit.HostKey(activity.HostOf(inbox)) }
func byInbox(inbox string) string { return circuit.InboxKey(inbox) }

func (b *book) view(t *testing.T, cursor string, limit int) ledger.View {
	t.Helper()
	v, err := ledger.ViewOf(t.Context(), b, b.record.ID, cursor, limit, now)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func states(v ledger.View) []activity.State {
	var ss []activity.State
	for _, r := range v.Recipients {
		ss = append(ss, r.State)
	}
	return ss
}

func TestViewShowsEachRecipientAsRecorded(t *testing.T) {
	b := newBook(4, 50)
	failed := ledger.Recipient{
		State: activity.Retrying, Attempts: 2, LastStatus: 503, LastError: "503 Service Unavailable", Response: "busy",
		Note: "note", NextAttemptAt: now.Add(time.Minute), UpdatedAt: now, Own: true,
	}
	b.set(1, failed)
	b.set(2, ledger.Recipient{State: activity.Superseded, By: "01M7YQZXC0QPG9H0K4P4VBW8CC", NextAttemptAt: now})
	got := b.view(t, "", 10)
	want := ledger.View{
		ID: b.record.ID, Status: ledger.StatusDelivering,
		Counts: map[activity.State]int{activity.Queued: 2, activity.Retrying: 1, activity.Superseded: 2},
		Recipients: []ledger.RecipientView{
			{Inbox: "https://h0.example/inbox", State: activity.Queued},
			{
				Inbox: "https://h1.example/inbox", State: activity.Retrying, Attempts: 2, LastStatus: 503, LastError: "503 Service Unavailable",
				Response: "busy", Note: "note", NextAttemptAt: now.Add(time.Minute), UpdatedAt: now,
			},
			{Inbox: "https://h2.example/inbox", State: activity.Superseded, Recipients: 2, By: "01M7YQZXC0QPG9H0K4P4VBW8CC"},
			{Inbox: "https://h3.example/inbox", State: activity.Queued},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestViewSumsUpInAStatus(t *testing.T) {
	all := func(s activity.State) func(*book) {
		return func(b *book) {
			for i := range b.record.Targets {
				b.set(i, ledger.Recipient{State: s})
			}
		}
	}
	for _, c := range []struct {
		name string
		do   func(*book)
		want ledger.Status
	}{
		{"nothing yet", func(*book) {}, ledger.StatusQueued},
		{"not planned yet", func(b *book) { b.chunks[0].Targets, b.chunks[1].Targets = nil, nil }, ledger.StatusQueued},
		{"claimed", func(b *book) { b.chunks[1].Touched, b.chunks[1].Claimed = true, now.Add(time.Minute) }, ledger.StatusDelivering},
		{"parked unattempted", func(b *book) { b.park(3, byHost) }, ledger.StatusDelivering},
		{"some delivered", func(b *book) { b.set(3, ledger.Recipient{State: activity.Delivered}) }, ledger.StatusDelivering},
		{"all parked", all(activity.Parked), ledger.StatusDelivering},
		{"all delivered", all(activity.Delivered), ledger.StatusDone},
		{"all dead", all(activity.Dead), ledger.StatusDone},
		{"cancelled before anything", func(b *book) { b.record.Cancelled = true }, ledger.StatusCancelled},
		{"cancelled halfway", func(b *book) { b.set(1, ledger.Recipient{State: activity.Delivered}); b.record.Cancelled = true }, ledger.StatusCancelled},
		{"cancelled too late", func(b *book) { all(activity.Delivered)(b); b.record.Cancelled = true }, ledger.StatusDone},
		{"expired", func(b *book) { b.record.ExpiresAt = now }, ledger.StatusDone},
	} {
		b := newBook(6, 3)
		c.do(b)
		if got := b.view(t, "", 10).Status; got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestViewShowsAtOnceWhatWillNotBeSent(t *testing.T) {
	for _, c := range []struct {
		stop func(*book)
		want activity.State
	}{
		{func(b *book) { b.record.Cancelled = true }, activity.Cancelled},
		{func(b *book) { b.record.ExpiresAt = now }, activity.Expired},
		{func(b *book) { b.record.Cancelled, b.record.ExpiresAt = true, now }, activity.Cancelled},
	} {
		b := newBook(9, 5)
		b.set(0, ledger.Recipient{State: activity.Delivered})
		b.set(1, ledger.Recipient{State: activity.Parked, Own: true})
		b.set(2, ledger.Recipient{State: activity.Retrying, Own: true, Claimed: now.Add(time.Second)}) // is being sent to
		b.set(3, ledger.Recipient{State: activity.Retrying, Own: true, Claimed: now})
		b.chunks[1].Claimed = now.Add(time.Second)
		b.set(6, ledger.Recipient{State: activity.Retrying})
		b.park(4, byHost)
		c.stop(b)
		want := []activity.State{
			activity.Delivered, c.want, activity.Retrying, c.want, c.want,
			activity.Queued, c.want, activity.Queued, activity.Queued,
		}
		if d := cmp.Diff(want, states(b.view(t, "", 10))); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}

func TestViewFindsWhatWasParkedUnattempted(t *testing.T) {
	b := newBook(6, 3)
	b.park(1, byHost)
	b.park(2, byInbox)
	b.park(4, byHost)
	b.set(4, ledger.Recipient{State: activity.Delivered}) // it is removed from the lot in a moment
	want := []activity.State{activity.Queued, activity.Parked, activity.Parked, activity.Queued, activity.Delivered, activity.Queued}
	if d := cmp.Diff(want, states(b.view(t, "", 10))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestViewFindsWhatIsParkedInOrder(t *testing.T) {
	b := newBook(3, 1)
	b.record.OrderingKey = "thread 7"
	b.park(1, byHost)
	other := *b
	other.record.ID = "01M7YQZXC0QPG9H0K4P4VBW8CC"
	other.park(2, byHost)
	want := []activity.State{activity.Queued, activity.Parked, activity.Queued}
	if d := cmp.Diff(want, states(b.view(t, "", 10))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestViewSaysWhichLotAParkedRecipientLiesIn(t *testing.T) {
	b := newBook(4, 50)
	b.park(0, byHost)
	b.park(1, byInbox)
	signed := circuit.InboxKey(b.chunks[0].Targets[2].Inbox) + "#key-0123456789ab"
	b.set(2, ledger.Recipient{State: activity.Parked, Lot: ledger.LotName(b.chunks[0].Targets[2].Inbox, signed)})
	b.set(3, ledger.Recipient{State: activity.Parked, Lot: ledger.LotName(b.chunks[0].Targets[3].Inbox, "host:h3.example")})
	want := []string{"host:h0.example", "inbox:https://h1.example/inbox", signed, "host:h3.example"}
	for i, r := range b.view(t, "", 10).Recipients {
		if r.State != activity.Parked || r.Lot != want[i] {
			t.Errorf("%s is %s in the lot of %q, want %q", r.Inbox, r.State, r.Lot, want[i])
		}
	}
}

// An ordered delivery that waits for its slot under a rate limit before any attempt has no record,
// but its parked item has a due time.
func TestAnOrderedDeliveryWithoutARecordShowsWhenItsGroupIsDue(t *testing.T) {
	b := newBook(3, 1)
	b.record.OrderingKey = "thread 7"
	b.park(1, byHost)
	b.dues = map[parking.ID]time.Time{}
	for s := range b.parked {
		b.dues[s] = now.Add(time.Hour)
	}
	got := b.view(t, "", 10).Recipients
	if !got[1].NextAttemptAt.Equal(now.Add(time.Hour)) || !got[0].NextAttemptAt.IsZero() {
		t.Errorf("next attempts at %s and %s, want none and in an hour", got[0].NextAttemptAt, got[1].NextAttemptAt)
	}
}

func TestViewCountsParkedChunksByOneTarget(t *testing.T) {
	b := newBook(30, 3)
	for i := range 15 {
		b.park(i, byHost)
	}
	v := b.view(t, "", 3)
	if got, want := v.Counts, (map[activity.State]int{activity.Parked: 20, activity.Queued: 20}); !cmp.Equal(got, want) {
		t.Errorf("counts: %v, want %v", got, want)
	}
	// Three of the page and one of each other chunk, and once more where the first look finds
	// nothing: in a large activity each costs a lookup.
	if most := 3 + 9 + 5; b.asked > most {
		t.Errorf("looked for %d ids, at most %d", b.asked, most)
	}
}

func TestViewIsPaged(t *testing.T) {
	b := newBook(11, 3)
	for i := range 11 {
		b.set(i, ledger.Recipient{State: activity.Delivered, Attempts: i})
	}
	for _, limit := range []int{1, 2, 3, 4, 10, 11, 100} {
		next := 0
		for cursor := ""; ; {
			v := b.view(t, cursor, limit)
			if v.Counts[activity.Delivered] != b.record.Recipients || len(v.Recipients) > limit {
				t.Errorf("limit %d: %d recipients, counts %v", limit, len(v.Recipients), v.Counts)
			}
			for _, r := range v.Recipients {
				if r.Attempts != next {
					t.Errorf("limit %d: target %d in place of %d", limit, r.Attempts, next)
				}
				next++
			}
			if cursor = v.NextCursor; cursor == "" {
				break
			}
		}
		if next != 11 {
			t.Errorf("limit %d: %d recipients in all", limit, next)
		}
	}
}

func TestViewCountsWhatIsNotPlannedYet(t *testing.T) {
	b := newBook(12, 3)
	b.set(0, ledger.Recipient{State: activity.Delivered})
	b.chunks[2].Targets = nil
	v := b.view(t, "", 100)
	if got, want := v.Counts, (map[activity.State]int{activity.Delivered: 1, activity.Queued: 15}); !cmp.Equal(got, want) {
		t.Errorf("counts: %v, want %v", got, want)
	}
	if len(v.Recipients) != 6 {
		t.Errorf("%d recipients listed", len(v.Recipients))
	}
}

func TestViewRefusesCursorsOfOthers(t *testing.T) {
	b := newBook(4, 3)
	for _, cursor := range []string{"x", "MQ", "dGFyZ2V0IA", "dGFyZ2V0IC0x", "dGFyZ2V0IDQ", "dGFyZ2V0IDk5OTk5OTk5OTk5OTk5OTk5OTk5OTk"} {
		if _, err := ledger.ViewOf(t.Context(), b, b.record.ID, cursor, 10, now); !errors.Is(err, ledger.ErrBadCursor) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	if _, err := ledger.ViewOf(t.Context(), b, "other", "", 10, now); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("another activity: %v", err)
	}
}

// TestAPageStaysUnderAMegabyte, whatever strangers' servers have answered, and
// following the cursors skips nothing and repeats nothing.
func TestAPageStaysUnderAMegabyte(t *testing.T) {
	const targets = 1000
	b := newBook(targets, 50)
	for i := range targets {
		b.set(i, ledger.Recipient{
			State: activity.Retrying, LastError: strings.Repeat(`"`, 64<<10), Response: strings.Repeat(`\`, 64<<10) + "\x1b[2J", Note: strings.Repeat("🐘", 64<<10),
		})
	}
	seen := map[string]bool{}
	for cursor, pages := "", 0; ; pages++ {
		v := b.view(t, cursor, targets)
		text, err := json.Marshal(v)
		if err != nil || len(text) > 1<<20 {
			t.Errorf("page %d has %d recipients in %d bytes, %v", pages, len(v.Recipients), len(text), err)
		}
		for _, r := range v.Recipients {
			if seen[r.Inbox] {
				t.Errorf("%s comes twice", r.Inbox)
			}
			seen[r.Inbox] = true
			if strings.ContainsRune(r.Response, '\x1b') || len(r.Response) > 1024 {
				t.Errorf("the response is %q", r.Response)
			}
		}
		if cursor = v.NextCursor; cursor == "" || pages > targets {
			break
		}
	}
	if len(seen) != targets {
		t.Errorf("%d of %d recipients are listed", len(seen), targets)
	}
}
