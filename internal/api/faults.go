package api

import (
	"fmt"
	"strings"

	"fedpost/client"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/enqueue"
)

// Bounds of a request. Reading stops at a bound: 800,000 unknown fields would cost seconds and
// hundreds of megabytes.
const (
	// maxFields is three times what the largest object of a request has.
	maxFields = 64
	// maxListed is how many recipients a request may list before the shared-inbox collapse.
	maxListed = 200_000
	// maxParts is how many activities of a batch are read; the setting MAX_BATCH is lower.
	maxParts = 1000
	// maxQuoted is how much of a request a fault repeats, in bytes.
	maxQuoted = 300
)

// faults lists what is wrong with a request, up to enqueue.MaxFaults faults.
type faults struct {
	list []client.FieldError
	more bool
}

// add records a fault. Both texts may quote the request, so both are shortened.
func (f *faults) add(pointer, format string, args ...any) {
	if f.full() {
		f.more = true
		return
	}
	f.list = append(f.list, client.FieldError{
		Pointer: outcome.Clean(pointer, maxQuoted), Detail: outcome.Clean(fmt.Sprintf(format, args...), maxQuoted),
	})
}

func (f *faults) none() bool { return len(f.list) == 0 }

// full reports whether there are as many faults as an answer lists.
func (f *faults) full() bool { return len(f.list) >= enqueue.MaxFaults }

// pointer is one step of a JSON pointer (RFC 6901).
func pointer(name string) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name[:min(len(name), maxQuoted)])
}
