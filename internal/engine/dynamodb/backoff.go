package dynamodb

import (
	"context"
	"math/rand/v2"
	"time"

	"fedpost/internal/engine/awssdk"
)

// pause waits before the next try: 25, 50, 100 ms … up to 2 s, with full jitter,
// so that writers that collided do not collide again.
func pause(ctx context.Context, try int) error {
	return awssdk.Wait(ctx, rand.N(min(25*time.Millisecond<<min(try, 10), 2*time.Second))+time.Millisecond)
}
