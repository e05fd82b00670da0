package deadletter_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

var died = time.Date(2026, 11, 21, 23, 59, 0, 0, time.UTC)

func newDeadLetter(id activity.ID, host string) deadletter.DeadLetter {
	t := activity.Target{Inbox: "https://" + host + "/inbox", Stands: 1}
	return deadletter.DeadLetter{
		Activity: activity.Activity{ID: id, Type: "Create", Protocol: activity.ActivityPub, Body: "{}", CreatedAt: died.Add(-7 * 24 * time.Hour)},
		Delivery: message.Delivery{Chunk: 2, Position: 7, Targets: []activity.Target{t}, Attempts: 5, Generation: 3, Trial: true},
		Last:     ledger.Recipient{Chunk: 2, Position: 7, Target: t, State: activity.Dead, Generation: 3},
		Reason:   "exhausted", Died: died,
	}
}

const (
	id1 = activity.ID("01M7YQZXC038A60FQ34D193H4C")
	id2 = activity.ID("01M7YQZXC0QPG9H0K4P4VBW8CC")
)

func TestANameIsReadAsItIsWritten(t *testing.T) {
	n := newDeadLetter(id1, "a.example").Name()
	if s := n.String(); s != "2026-11-21.01M7YQZXC038A60FQ34D193H4C.2.7.3" {
		t.Errorf("written %s", s)
	}
	if got, err := deadletter.ParseName(n.String()); err != nil || got != n {
		t.Errorf("read %+v, %v", got, err)
	}
	for _, s := range []string{
		"", "x", "2026-11-21.01M7YQZXC038A60FQ34D193H4C.2.7", "2026-11-31.01M7YQZXC038A60FQ34D193H4C.2.7.3",
		"2026-11-21.01M7YQZXC0.2.7.3", "2026-11-21.01M7YQZXC038A60FQ34D193H4C.2.07.3", "2026-11-21.01M7YQZXC038A60FQ34D193H4C.2.7.x",
		"2026-11-21.01m7yqzxc038a60fq34d193h4c.2.7.3", "2026-11-21.01M7YQZXC038A60FQ34D193H4C.2.7.3.4",
	} {
		if got, err := deadletter.ParseName(s); !errors.Is(err, deadletter.ErrNotFound) {
			t.Errorf("%q is read as %+v, %v", s, got, err)
		}
	}
}

func FuzzParseName(f *testing.F) {
	f.Add(newDeadLetter(id1, "a.example").Name().String())
	f.Fuzz(func(t *testing.T, s string) {
		n, err := deadletter.ParseName(s)
		if err == nil && n.String() != s {
			t.Errorf("%q became %q", s, n)
		}
	})
}

func TestAFilterSelectsWhatMatchesAllOfIt(t *testing.T) {
	l := newDeadLetter(id1, "a.example")
	other := l.Name()
	other.Position++
	for _, c := range []struct {
		name string
		f    deadletter.Filter
		want bool
	}{
		{"nothing set", deadletter.Filter{}, true},
		{"its name", deadletter.Filter{Name: l.Name()}, true},
		{"another name", deadletter.Filter{Name: other}, false},
		{"its host", deadletter.Filter{Host: "a.example"}, true},
		{"another host", deadletter.Filter{Host: "b.example"}, false},
		{"its activity", deadletter.Filter{Activity: id1}, true},
		{"another activity", deadletter.Filter{Activity: id2}, false},
		{"its type", deadletter.Filter{Type: "Create"}, true},
		{"another type", deadletter.Filter{Type: "create"}, false},
		{"since its death", deadletter.Filter{Since: died}, true},
		{"since later", deadletter.Filter{Since: died.Add(1)}, false},
		{"all", deadletter.Filter{Name: l.Name(), Host: "a.example", Activity: id1, Since: died}, true},
		{"all but one", deadletter.Filter{Name: l.Name(), Host: "a.example", Activity: id2, Since: died}, false},
	} {
		if got := c.f.Matches(l); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// shelf is a store of dead letters on one page.
type shelf struct {
	kept []deadletter.DeadLetter
	gone []deadletter.Name
}

func (y *shelf) AddDeadLetters(context.Context, []deadletter.DeadLetter) error { return nil }

func (y *shelf) KeepBody(context.Context, activity.Activity, time.Time) (activity.Apart, error) {
	return activity.Apart{}, nil
}

func (y *shelf) DeadLetters(_ context.Context, f deadletter.Filter, _ string, limit int) (ls []deadletter.DeadLetter, next string, err error) {
	for _, l := range y.kept {
		if f.Matches(l) && len(ls) < limit {
			ls = append(ls, l)
		}
	}
	return ls, "next", nil
}

func (y *shelf) Named(context.Context, []deadletter.Name) ([]deadletter.DeadLetter, error) {
	return y.kept, nil
}

func (y *shelf) Revivable(context.Context, string, bool, time.Time, string, int) ([]deadletter.DeadLetter, string, error) {
	return nil, "", nil
}

func (y *shelf) LeaveDead(context.Context, []deadletter.DeadLetter) error { return nil }

func (y *shelf) RemoveDeadLetters(_ context.Context, ls []deadletter.DeadLetter) error {
	for _, l := range ls {
		y.gone = append(y.gone, l.Name())
	}
	return nil
}

// box is a queue that refuses what is for one host.
type box struct {
	name   queue.Name
	sent   map[queue.Name][]queue.Message
	refuse string
}

var errFull = errors.New("full")

func (b box) SendBatch(_ context.Context, ms []queue.Message) []error {
	errs := make([]error, len(ms))
	for i, m := range ms {
		d, err := message.Decode(m.Body)
		if err != nil || d.Deliver.Targets[0].Host() == b.refuse {
			errs[i] = errors.Join(errFull, err)
			continue
		}
		b.sent[b.name] = append(b.sent[b.name], m)
	}
	return errs
}

func (b box) Send(ctx context.Context, m queue.Message) error {
	return b.SendBatch(ctx, []queue.Message{m})[0]
}

func (b box) Capabilities() queue.Capabilities { return queue.Standard.Of(b.name) }

func TestRevivingSendsAnewAndRemovesWhatWasSent(t *testing.T) {
	a, b, c, ordered := newDeadLetter(id1, "a.example"), newDeadLetter(id2, "b.example"), newDeadLetter(id2, "c.example"), newDeadLetter(id1, "a.example")
	b.Activity.Priority = activity.High
	ordered.Activity.OrderingKey = "thread"
	ordered.Delivery.Generation = 9
	y := &shelf{kept: []deadletter.DeadLetter{a, b, c, ordered}}
	sent := map[queue.Name][]queue.Message{}
	now := died.Add(time.Hour)
	r := deadletter.Reviver{
		Store:  y,
		Queues: func(n queue.Name) queue.Sender { return box{n, sent, "c.example"} },
		Now:    func() time.Time { return now },
	}
	n, next, err := r.Revive(t.Context(), deadletter.Filter{Since: died}, "", 10)
	if n != 3 || next != "next" || !errors.Is(err, errFull) {
		t.Errorf("revived %d, next %q, %v", n, next, err)
	}
	for name, l := range map[queue.Name]deadletter.DeadLetter{queue.Normal: a, queue.High: b, queue.Ordered: ordered} {
		if len(sent[name]) != 1 {
			t.Errorf("%d messages on %s", len(sent[name]), name)
			continue
		}
		m, err := message.Decode(sent[name][0].Body)
		if err != nil {
			t.Fatal(err)
		}
		want := l.Delivery
		want.Attempts, want.Trial, want.Since, want.Generation = 0, false, now, max(4, l.Delivery.Generation)
		if d := cmp.Diff(want, *m.Deliver); d != "" {
			t.Errorf("on %s (-want +got):\n%s", name, d)
		}
		if got, want := sent[name][0].OrderingKey != "" && sent[name][0].DeduplicationKey != "", name.Ordered(); got != want {
			t.Errorf("on %s: group %q, deduplication %q", name, sent[name][0].OrderingKey, sent[name][0].DeduplicationKey)
		}
	}
	if len(y.gone) != 3 {
		t.Errorf("removed %v", y.gone)
	}
	for _, n := range y.gone {
		if n == c.Name() && n != b.Name() {
			t.Errorf("removed %v, which was not sent", n)
		}
	}
}
