package engines

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/smithy-go"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
)

// starved is a server whose machine is too busy to answer the next calls of
// ChangeVisibility.
type starved struct {
	queue.Queue
	fail  int
	error error
}

func (s *starved) ChangeVisibility(ctx context.Context, handle string, d time.Duration) error {
	if s.fail > 0 {
		s.fail--
		return s.error
	}
	return s.Queue.ChangeVisibility(ctx, handle, d)
}

// TestAMessageThatCannotBeShownAgainIsNotForgotten: the queue took each failure of the call that
// ends a visibility timeout to mean that the message was deleted. If a call failed on a starved
// machine, the message was hidden for the rest of the test, and its recipient stayed queued.
func TestAMessageThatCannotBeShownAgainIsNotForgotten(t *testing.T) {
	refused := fmt.Errorf("change visibility: %w", &smithy.GenericAPIError{Code: "InvalidParameterValue", Fault: smithy.FaultClient})
	for name, c := range map[string]struct {
		error error
		left  int
	}{
		"timeout":       {context.DeadlineExceeded, 1},
		"reset":         {errors.New("connection reset by peer"), 1},
		"server fault":  {&smithy.GenericAPIError{Code: "InternalError", Fault: smithy.FaultServer}, 1},
		"it is deleted": {refused, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			})
			now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			server := &starved{Queue: e.Queue(queue.Normal), error: c.error}
			v := newVirtual(server.Capabilities(), func() (queue.Queue, error) { return server, nil }, func() time.Time { return now }, time.Minute)
			receive := func() (n int, err error) {
				ms, err := v.Receive(t.Context(), queue.ReceiveOptions{Max: 10})
				return len(ms), err
			}
			if err := v.Send(t.Context(), queue.Message{Body: "a message"}); err != nil {
				t.Fatal(err)
			}
			if n, err := receive(); err != nil || n != 1 {
				t.Fatalf("%d messages, %v", n, err)
			}
			now = now.Add(2 * time.Minute)
			server.fail = 1
			n, err := receive()
			if n != 0 {
				t.Errorf("while the server fails: %d messages, want none", n)
			}
			if c.left > 0 && err == nil || c.left == 0 && err != nil {
				t.Errorf("while the server fails: error %v with %d messages left", err, c.left)
			}
			if n, err := receive(); err != nil || n != c.left {
				t.Errorf("then: %d messages, %v; want %d", n, err, c.left)
			}
		})
	}
}
