package awssdk

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitLastsAsLongAsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Wait(t.Context(), time.Second); err != nil || time.Since(began) != time.Second {
			t.Errorf("a second took %s: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := Wait(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("an hour with a second left took %s: %v", time.Since(began), err)
		}
	})
}

// TestAnEndedContextIsReportedThoughTheTimeIsOver: of two channels that are ready, a select takes
// either. A caller that got no error would send to a process that stops.
func TestAnEndedContextIsReportedThoughTheTimeIsOver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if err := Wait(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
	}
}
