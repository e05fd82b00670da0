package topology

import (
	"testing"

	"fedpost/internal/engine/queue"
)

func TestAMessageStaysHiddenWhileItsFunctionRuns(t *testing.T) {
	for _, n := range Sources {
		if got, least := Of(n).Visibility, 6*Deliver.Timeout; got < least || got > queue.MaxVisibility {
			t.Errorf("%s: visibility %s, want %s to %s", n, got, least, queue.MaxVisibility)
		}
	}
}

func TestADeadLetterOutlivesItsSource(t *testing.T) {
	for _, n := range Sources {
		if source, dead := Of(n), Of(n.DeadLetter()); dead.Retention <= source.Retention {
			t.Errorf("%s keeps messages for %s, its dead-letter queue only for %s", n, source.Retention, dead.Retention)
		}
	}
}

func TestEveryQueueHasSettingsWithinTheLimitsOfSQS(t *testing.T) {
	for _, n := range queue.Names {
		q := Of(n)
		isSource := q.BatchSize > 0
		switch {
		case q.Visibility <= 0 || q.Retention <= 0:
			t.Errorf("%s has no visibility timeout or retention: %+v", n, q)
		case q.Retention > 14*day:
			t.Errorf("%s: retention %s is over 14 days", n, q.Retention)
		case isSource && (q.BatchSize > queue.MaxBatch || q.Concurrency < 2 || q.MaxReceives < 1 || q.MaxReceives > 1000):
			t.Errorf("%s: out of the limits: %+v", n, q)
		case isSource != (n != n.DeadLetter()):
			t.Errorf("%s: read by a function: %t", n, isSource)
		}
	}
}
