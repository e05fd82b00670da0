package enqueue_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/message/tracing"
	"fedpost/internal/testkit/faults"
)

// traced adds a tracer that samples everything.
func traced() (option, *tracetest.SpanRecorder) {
	r := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(r)).Tracer("")
	return func(s *settings) { s.enqueue.Trace = tracing.New(tracer, tracer, "fedpost") }, r
}

// TestATraceTravelsWithWhateverIsAccepted: at once, by claim check, in a batch, in order and
// through the agenda.
func TestATraceTravelsWithWhateverIsAccepted(t *testing.T) {
	for name, change := range map[string][]func(*enqueue.Request){
		"at once":       nil,
		"with a key":    {key("k")},
		"ordered":       {ordered("g")},
		"delayed":       {delay(time.Minute)},
		"by the agenda": {delay(24 * time.Hour)},
		"large":         {body(`{"type":"Create","actor":"https://social.example/users/frida","content":"` + strings.Repeat("x", 5000) + `"}`)},
		"large, later":  {body(`{"type":"Create","actor":"https://social.example/users/frida","content":"` + strings.Repeat("x", 5000) + `"}`), delay(24 * time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			trace, spans := traced()
			w := newWorld(t, faults.NewPlan(), trace, func(s *settings) { s.maxMessage = 4000 })
			w.must(request(change...), enqueue.Queued)
			w.wait(25 * time.Hour)
			w.releaseAll()
			all := w.arrived()
			if len(all) != 1 || len(spans.Ended()) != 1 {
				t.Fatalf("%d arrived, %d spans", len(all), len(spans.Ended()))
			}
			sent := spans.Ended()[0].SpanContext()
			if got, want := all[0].Message.Activity.Trace, "00-"+sent.TraceID().String()+"-"+sent.SpanID().String()+"-01"; got != want {
				t.Errorf("the activity carries %q, want %q", got, want)
			}
		})
	}
}

// TestATraceCosts55Bytes of a message, and nothing where nobody traces: no request, no write,
// and no byte.
func TestATraceCosts55Bytes(t *testing.T) {
	trace, _ := traced()
	with, without := newWorld(t, faults.NewPlan(), trace), newWorld(t, faults.NewPlan())
	size := func(w *world) int {
		w.must(request(), enqueue.Queued)
		all := w.arrived()
		if len(all) != 1 {
			t.Fatalf("%d arrived", len(all))
		}
		if !strings.Contains(all[0].Raw.Body, `"trace"`) && w == with {
			t.Error("the message carries no trace")
		}
		return len(all[0].Raw.Body)
	}
	if more := size(with) - size(without); more != len(`"trace":"",`)+55 {
		t.Errorf("a trace makes a message %d bytes longer", more)
	}
	if a, b := with.cost.Snapshot(), without.cost.Snapshot(); !reflect.DeepEqual(a, b) {
		t.Errorf("a traced call costs %v, and another %v", a, b)
	}
}

// full is a queue that takes nothing.
type full struct{ queue.Sender }

func (full) Send(context.Context, queue.Message) error { return errors.New("no room") }

func TestACallThatFailsIsAFailedSpan(t *testing.T) {
	trace, spans := traced()
	w := newWorld(t, faults.NewPlan(), trace, func(s *settings) { s.enqueue.Queues[queue.Normal] = full{s.enqueue.Queues[queue.Normal]} })
	if _, err := w.enqueue(request()); err == nil {
		t.Fatal("the call was accepted")
	}
	if s := spans.Ended()[0]; !strings.Contains(s.Status().Description, "no room") {
		t.Errorf("the span has the status %v", s.Status())
	}
}
