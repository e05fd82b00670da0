package peers

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
)

// flights makes concurrent calls with the same key one call. Others wait for that call, so it goes on, for
// most at the longest, if the first caller ends.
type flights[T any] struct{ group singleflight.Group }

// do returns what work returns, or the cause of the caller's end.
func (f *flights[T]) do(ctx context.Context, key string, most time.Duration, work func(context.Context) (T, error)) (v T, err error) {
	done := f.group.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
		defer cancel()
		return work(ctx)
	})
	select {
	case <-ctx.Done():
		return v, context.Cause(ctx)
	case r := <-done:
		v, _ = r.Val.(T)
		return v, r.Err
	}
}
