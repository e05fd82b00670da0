package lambda

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"fedpost/internal/app/lambda/sqsevent"
)

const (
	// secretEvery is how often the secret is read again: a replaced key is used for at most 10
	// minutes more.
	secretEvery = 10 * time.Minute
	// startTime bounds reading the secret at start, for which Lambda allows 10 s; lookTime
	// bounds it in an invocation.
	startTime = 8 * time.Second
	lookTime  = 2 * time.Second
)

// rotating is an engine that is rebuilt when the secret with our identity has a new version.
//
// A start without the secret fails, because an engine without an identity would refuse Sipher
// jobs for good. Later failures to read the secret keep the engine.
type rotating struct {
	read  func(context.Context) (secret map[string]string, version string, err error)
	build func(secret map[string]string) (sqsevent.Worker, error)
	log   *slog.Logger
	now   func() time.Time

	mu      sync.Mutex
	worker  sqsevent.Worker
	version string
	looked  time.Time
}

func (r *rotating) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	secret, version, err := r.read(ctx)
	if err != nil {
		return fmt.Errorf("identity in the Sipher network: %w", err)
	}
	worker, err := r.build(secret)
	if err != nil {
		return fmt.Errorf("identity in the Sipher network: %w", err)
	}
	r.worker, r.version, r.looked = worker, version, r.now()
	return nil
}

// current returns the engine for an invocation. Of concurrent invocations one reads the secret; the
// others use the engine that is there.
func (r *rotating) current(ctx context.Context) sqsevent.Worker {
	r.mu.Lock()
	worker, due := r.worker, r.now().Sub(r.looked) >= secretEvery
	if due {
		r.looked = r.now()
	}
	known := r.version
	r.mu.Unlock()
	if !due {
		return worker
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	secret, version, err := r.read(ctx)
	if err != nil {
		r.log.WarnContext(ctx, "the secret with our Sipher identity could not be read; the last identity stays in use", "error", err)
		return worker
	}
	if version == known {
		return worker
	}
	next, err := r.build(secret)
	if err != nil {
		r.log.ErrorContext(ctx, "the new version of the secret with our Sipher identity cannot be used; the last version stays in use", "error", err)
		return worker
	}
	r.mu.Lock()
	r.worker, r.version = next, version
	r.mu.Unlock()
	r.log.InfoContext(ctx, "our Sipher identity was replaced by the secret's new version", "version", version)
	return next
}
