package metrics

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
)

func at() time.Time { return time.UnixMilli(1772360130123) }

func TestAnInvocationPrintsOneLineThatCloudWatchReads(t *testing.T) {
	var out bytes.Buffer
	m := New("fedpost", &out, at)
	a := activity.Activity{}
	m.Attempted(a, outcome.Outcome{Class: outcome.Delivered, Status: 202}, activity.Delivered)
	m.Attempted(a, outcome.Outcome{Class: outcome.Delivered, Status: 200}, activity.Delivered)
	m.Attempted(a, outcome.Outcome{Class: outcome.Refused, Status: 404}, activity.Failed)
	m.Attempted(a, outcome.Outcome{Class: outcome.Throttled, Status: 429}, activity.Parked)
	m.Attempted(a, outcome.Outcome{Class: outcome.Retry, Try: outcome.Untried}, activity.Retrying)
	m.Counted("Parked", 3)
	m.Counted("Dead", 0)
	if err := m.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `{"Attempts":4,"Delivered":2,"Failed":1,"Parked":3,"Retried":1,"Throttled":1,` +
		`"_aws":{"CloudWatchMetrics":[{"Namespace":"fedpost","Dimensions":[[]],"Metrics":[` +
		`{"Name":"Attempts","Unit":"Count"},{"Name":"Delivered","Unit":"Count"},{"Name":"Failed","Unit":"Count"},` +
		`{"Name":"Parked","Unit":"Count"},{"Name":"Retried","Unit":"Count"},{"Name":"Throttled","Unit":"Count"}]}],` +
		`"Timestamp":1772360130123},"level":"INFO","message":"counts of this invocation","timestamp":"2026-03-01T10:15:30.123Z"}` + "\n"
	if got := out.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestNothingToCountPrintsNothing(t *testing.T) {
	var out bytes.Buffer
	m := New("fedpost", &out, at)
	m.Counted("Dead", 1)
	for range 2 {
		if err := m.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines for one count", n)
	}
}

func TestNoCountIsLostOrDoubledUnderConcurrency(t *testing.T) {
	var out lines
	m := New("fedpost", &out, at)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				m.Counted("Dead", 1)
				if err := m.Flush(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, l := range out.all {
		var v struct{ Dead int }
		if err := json.Unmarshal(l, &v); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		total += v.Dead
	}
	if total != 800 {
		t.Errorf("counted %d of 800", total)
	}
}

// lines keeps each write separately.
type lines struct {
	mu  sync.Mutex
	all [][]byte
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, bytes.Clone(b))
	return len(b), nil
}

func TestAFailedWriteIsReported(t *testing.T) {
	m := New("fedpost", broken{}, at)
	m.Counted("Dead", 1)
	if err := m.Flush(t.Context()); err == nil {
		t.Error("no error")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }
