package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/api/client"
)

// failedExit is the exit status of `status --wait` where some recipients did not get the
// activity, so that a script tells that from a mistake or an unreachable server (1).
const failedExit = 3

// exitError is an error with an exit status of its own.
type exitError struct {
	error
	status int
}

// The pause between two looks at an activity grows from firstPause to longestPause.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// await waits until every recipient of an activity has come to its end. The error says if
// one of them has not got the activity, and does not need to.
func (c status) await(ctx context.Context, api *client.Client) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		var s client.Status
		if err := api.Do(ctx, http.MethodGet, c.path()+"?limit=1", nil, &s); err != nil {
			return err
		}
		open, missed := 0, 0
		for state, n := range s.Counts {
			switch activity.State(state) {
			case activity.Delivered, activity.Redundant, activity.Superseded:
			case activity.Failed, activity.Dead, activity.Expired, activity.Cancelled:
				missed += n
			default:
				open += n
			}
		}
		switch {
		case open > 0 || len(s.Counts) == 0:
		case missed > 0:
			return exitError{fmt.Errorf("%s did not get %s", recipients(missed), s.ID), failedExit}
		default:
			return nil
		}
		if err := wait(ctx, pause); err != nil {
			return fmt.Errorf("wait for %s: %w", s.ID, err)
		}
	}
}

// wait waits for d, or until ctx ends; then it returns the error of ctx.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}
