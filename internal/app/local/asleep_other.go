//go:build !linux

package local

import "time"

func asleep() (time.Duration, bool) { return 0, false }
