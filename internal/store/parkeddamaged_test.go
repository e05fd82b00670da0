package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/store"
)

// damagedLot is a lot with two ordered deliveries of one group that are due, and of which
// the first is overwritten.
type damagedLot struct {
	*store.Store
	t          *testing.T
	now        time.Time
	key, group string
	shard, due int // of the lot, and of the index of what is due
	a          activity.Activity
}

func newDamagedLot(t *testing.T, key, inbox string, overwrite func(*table.Item)) damagedLot {
	t.Helper()
	e := embedded(t, sqlite.Options{})
	now := time.Now().UTC().Truncate(time.Millisecond)
	l := damagedLot{Store: store.New(e.Table(), func() time.Time { return now }), t: t, now: now, key: key, shard: -1}
	targets := activity.Targets{{Inbox: inbox, Stands: 1}}
	for i := range 2 {
		a := activity.Activity{
			ID: activity.DerivedID(now, fmt.Sprint(i)), Protocol: activity.ActivityPub, Type: "Create", Body: "{}", Options: activity.Options{OrderingKey: "actor"}, CreatedAt: now, Sequence: fmt.Sprintf("%024d", i),
		}
		l.group = message.GroupOf(a, targets[0].Host())
		p := parking.Parked{
			Key: key, Activity: a, Since: now, GiveUp: now.Add(time.Hour), Due: now,
			Delivery: message.Delivery{Targets: targets, Position: 0, Generation: 3}, Group: l.group, Sequence: a.Sequence,
		}
		if err := l.CreateActivity(t.Context(), ledger.Record{
			ID: a.ID, Protocol: a.Protocol, Type: a.Type, CreatedAt: now, OrderingKey: a.OrderingKey, Recipients: 1, Targets: 1, Chunk: 1, Inline: targets, Forget: now.Add(time.Hour),
		}); err != nil {
			t.Fatal(err)
		}
		if err := l.Park(t.Context(), []parking.Parked{p}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			l.a = a
		}
	}
	for n := range parking.Shards {
		list, err := e.Table().Due(t.Context(), fmt.Sprintf("head#%d", n), now, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range list {
			l.due, l.shard = n, int(it.PK[len(it.PK)-1]-'0')
			if strings.Contains(it.SK, string(l.a.ID)) {
				overwrite(&it)
				if err := e.Table().PutAll(t.Context(), []table.Item{it}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if l.shard < 0 {
		t.Fatal("nothing is due")
	}
	return l
}

// TestAParkedDeliveryThatCannotBeReadIsWhatTheLedgerKnows, whichever way it is found, and it can be
// removed.
func TestAParkedDeliveryThatCannotBeReadIsWhatTheLedgerKnows(t *testing.T) {
	long := "https://long.example/" + strings.Repeat("inbox/", 200)
	for name, c := range map[string]struct{ key, inbox string }{
		"host":  {circuit.HostKey("a.example"), "https://a.example/inbox"},
		"inbox": {circuit.InboxKey("https://a.example/inbox"), "https://a.example/inbox"},
		"long":  {circuit.InboxKey(long), long},
	} {
		for what, data := range map[string]string{
			"empty": "", "cut": "1", "rubbish": "rubbish", "noise": "1\xff\xff\xff\xff", "nothing": "1\xaa\xae\x05\x00",
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				l := newDamagedLot(t, c.key, c.inbox, func(it *table.Item) { it.Data = []byte(data) })
				under, next, err := l.ParkedUnder(t.Context(), l.key, l.shard, "", 10)
				if err != nil || len(under) != 2 || next != "" {
					t.Fatalf("parked are %+v, cursor %q, error %v; want two and no cursor", under, next, err)
				}
				of, _, err := l.ParkedOf(t.Context(), l.key, l.group, "", 10)
				if err != nil || len(of) != 2 {
					t.Fatalf("parked of the group are %+v, error %v; want two", of, err)
				}
				heads, _, err := l.Heads(t.Context(), l.key, l.shard, "", 10)
				if err != nil || len(heads) != 1 {
					t.Fatalf("heads are %+v, error %v; want one", heads, err)
				}
				due, err := l.DueHeads(t.Context(), l.due, l.now, 10)
				if err != nil || len(due) != 2 {
					t.Fatalf("due heads are %+v, error %v; want two", due, err)
				}
				want := l.a
				want.Body = ""
				for i, ps := range [][]parking.Parked{under, of, heads, due} {
					p := ps[0]
					if p.Damaged == nil || !p.IsOverdue(l.now) || p.Activity != want || p.Key != l.key || p.StoreKey != "" || p.Due.IsZero() ||
						p.Delivery.Generation != 3 || len(p.Delivery.Targets) != 1 || p.Delivery.Targets[0].Inbox != c.inbox {
						t.Errorf("%d: %+v", i, p)
					}
					if len(ps) > 1 && (ps[1].Damaged != nil || ps[1].Activity.Body != "{}") {
						t.Errorf("%d: the other is %+v", i, ps[1])
					}
				}
				if err := l.Unpark(t.Context(), []parking.ID{due[0].ID()}); err != nil {
					t.Fatal(err)
				}
				if ps, _, err := l.ParkedUnder(t.Context(), l.key, l.shard, "", 10); err != nil || len(ps) != 1 || ps[0].Damaged != nil {
					t.Errorf("after it is removed: %+v, %v", ps, err)
				}
			})
		}
	}
}

// TestAParkedDeliveryOfANewerVersionIsNotTakenForDamaged: a version that cannot read it must
// not end it.
func TestAParkedDeliveryOfANewerVersionIsNotTakenForDamaged(t *testing.T) {
	l := newDamagedLot(t, circuit.HostKey("a.example"), "https://a.example/inbox", func(it *table.Item) { it.Data[0] = '2' })
	if ps, _, err := l.ParkedUnder(t.Context(), l.key, l.shard, "", 10); err == nil {
		t.Errorf("parked are %+v, want an error", ps)
	}
}

// TestADamagedDeliveryOfNobodyHasAStoreKey by which it can be removed, whatever its key says.
func TestADamagedDeliveryOfNobodyHasAStoreKey(t *testing.T) {
	e := embedded(t, sqlite.Options{})
	s := store.New(e.Table(), time.Now)
	for _, sk := range []string{"U#", "U#x", "U#id#1#2", "U#id#a#b#c", "U#id#-1#0#1", "O#1#2#id#0#0#x", "O#1#2#id#000000#0000#000001", "U#id#000000#0000#000001", "Z", "U#1#2#3#4#5#6#7"} {
		it := table.Item{Key: table.Key{PK: "P#host:a.example#1", SK: sk}, Data: []byte("rubbish")}
		if err := e.Table().PutAll(t.Context(), []table.Item{it}); err != nil {
			t.Fatal(err)
		}
		ps, _, err := s.ParkedUnder(t.Context(), "host:a.example", 1, "", 10)
		if err != nil || len(ps) != 1 || ps[0].StoreKey == "" || ps[0].Damaged == nil || len(ps[0].Delivery.Targets) != 1 {
			t.Fatalf("%q: %+v, %v", sk, ps, err)
		}
		if err := s.Unpark(t.Context(), []parking.ID{ps[0].ID()}); err != nil {
			t.Fatal(err)
		}
		if ps, _, err := s.ParkedUnder(t.Context(), "host:a.example", 1, "", 10); err != nil || len(ps) != 0 {
			t.Errorf("%q stays: %+v, %v", sk, ps, err)
		}
	}
}
