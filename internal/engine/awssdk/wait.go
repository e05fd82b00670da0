package awssdk

import (
	"context"
	"time"
)

// Wait waits for d, or until ctx ends; then it returns the error of ctx.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
