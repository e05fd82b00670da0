package api

import (
	"fmt"
	"strings"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/api/contract"
	"fedpost/internal/enqueue"
)

// Bounds on what is read of a request. A request with more is refused for that
// and not read on: 800,000 unknown fields would otherwise cost seconds and
// hundreds of megabytes.
const (
	// maxFields is three times what the largest object of a request has.
	maxFields = 64
	// maxListed bounds recipients before those are counted that share an inbox.
	maxListed = 200_000
	// maxParts is how many activities of a batch are read, whatever limit is configured.
	maxParts = 1000
	// maxQuoted is how much of a request a fault repeats, in bytes.
	maxQuoted = 300
)

// faults are what is wrong with a request, up to enqueue.MaxFaults of them.
type faults struct {
	list []contract.FieldError
	more bool
}

// add notes what is wrong at a place. Both may quote the request, so both are cut.
func (f *faults) add(pointer, format string, args ...any) {
	if f.full() {
		f.more = true
		return
	}
	f.list = append(f.list, contract.FieldError{
		Pointer: outcome.Clean(pointer, maxQuoted), Detail: outcome.Clean(fmt.Sprintf(format, args...), maxQuoted),
	})
}

func (f *faults) none() bool { return len(f.list) == 0 }

// full reports whether there are as many faults as an answer lists: then reading on is
// useless.
func (f *faults) full() bool { return len(f.list) >= enqueue.MaxFaults }

// pointer is one step of a JSON pointer (RFC 6901).
func pointer(name string) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name[:min(len(name), maxQuoted)])
}
