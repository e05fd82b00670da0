package deliver

import (
	"context"
	"errors"
	"testing"
	"time"

	"fedpost/internal/deliver/intake"
	"fedpost/internal/deliver/verdict"
	"fedpost/internal/ledger"
)

type failingLedger struct {
	ledger.Store
	errs []error
}

func (l *failingLedger) Record(context.Context, *ledger.Claim, []ledger.Recipient, bool) error {
	err := l.errs[0]
	l.errs = l.errs[1:]
	return err
}

type recordMeter struct {
	Meter
	recorded int
}

func (m *recordMeter) Recorded(rs []ledger.Recipient) { m.recorded += len(rs) }

// A recipient that could not be recorded comes again, and is counted then.
func TestWhatIsRecordedIsCountedWhenItIs(t *testing.T) {
	down := errors.New("down")
	for _, c := range []struct {
		errs []error
		want int
	}{
		{[]error{nil}, 1},
		{[]error{ledger.ErrClaimed}, 0},
		{[]error{down, nil}, 1},
		{[]error{down, down, down}, 0},
	} {
		m := &recordMeter{}
		last := c.errs[len(c.errs)-1]
		v := &invocation{Engine: &Engine{Config: Config{Ports: intake.Ports{Ledger: &failingLedger{errs: c.errs}, Now: time.Now}, Meter: m}}}
		v.journal, v.feed = v.newJournal(t.Context(), "", nil), &feed{Engine: v.Engine}
		u := &unit{jobs: []*job{{verdict: verdict.Delivered{}}}}
		if _, err := (executor{v}).record(t.Context(), u); !errors.Is(err, last) {
			t.Errorf("%v: error %v", c.errs, err)
		}
		if m.recorded != c.want {
			t.Errorf("%v: counted %d, want %d", c.errs, m.recorded, c.want)
		}
	}
}

func (l *failingLedger) WriteJournal(context.Context, string, int, []ledger.JournalEntry) error {
	return nil
}

// Who writes an outcome to the journal after its claim has lapsed does not count it: another worker may have
// made the same attempt meanwhile, and counts what it records.
func TestARecipientIsNotCountedTwiceAfterALapsedClaim(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name  string
		until time.Time
		end   error // of the record, after the note
		want  int
	}{
		{"in time", now.Add(time.Minute), nil, 1},
		{"lapsed, and taken over", now.Add(-time.Second), ledger.ErrClaimed, 0},
		{"lapsed, and nobody else came", now.Add(-time.Second), nil, 1},
	} {
		m := &recordMeter{}
		v := &invocation{Engine: &Engine{Config: Config{Ports: intake.Ports{Ledger: &failingLedger{errs: []error{c.end}}, Now: func() time.Time { return now }}, Meter: m}}}
		v.journal, v.feed = v.newJournal(t.Context(), "", nil), &feed{Engine: v.Engine}
		u := &unit{jobs: []*job{{verdict: verdict.Delivered{}}}, claim: ledger.Claim{Until: c.until}}
		v.journal.add(u, u.jobs[0])
		v.journal.close(t.Context())
		if _, err := (executor{v}).record(t.Context(), u); !errors.Is(err, c.end) {
			t.Errorf("%s: error %v", c.name, err)
		}
		if m.recorded != c.want {
			t.Errorf("%s: counted %d times, want %d", c.name, m.recorded, c.want)
		}
	}
}
