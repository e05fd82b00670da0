//go:build !unix

package lambda

import "os"

// throttle does nothing where processes cannot be stopped.
func throttle(*os.Process, float64, <-chan struct{}) {}
