package sqlite

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

// blocked has the writer wait until release is called.
func blocked(t *testing.T, e *Engine, calls *sync.WaitGroup) (release func()) {
	t.Helper()
	block := make(chan struct{})
	calls.Go(func() {
		if err := e.write(t.Context(), func(*session) error { <-block; return nil }); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return func() { close(block) }
}

// TestACallThatGivesUpBeforeItsTurnDoesNothing: its caller is answered at once.
func TestACallThatGivesUpBeforeItsTurnDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openAt(t, file(t), Options{})
		var calls sync.WaitGroup
		release := blocked(t, e, &calls)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- e.write(ctx, func(*session) error { t.Error("the write was made"); return nil })
		}()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		release()
		calls.Wait()
	})
}
