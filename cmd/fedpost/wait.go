package main

import (
	"context"
	"fmt"

	"fedpost/client"
)

// failedExit is the exit status of `status --wait` where some recipients did not get the
// activity, so that a script can distinguish it from a mistake or an unreachable server (1).
const failedExit = 3

// exitError is an error with an exit status of its own.
type exitError struct {
	error
	status int
}

// await waits until all recipients of an activity are finished. The error says if some did not get the
// activity.
func (c status) await(ctx context.Context, api *client.Client) error {
	s, err := api.WaitUntilDone(ctx, c.id())
	if missed := s.Missed(); err == nil && missed > 0 {
		return exitError{fmt.Errorf("%s did not get %s", recipients(missed), s.ID), failedExit}
	}
	return err
}
