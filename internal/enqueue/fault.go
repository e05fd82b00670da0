package enqueue

import (
	"fmt"
	"strings"
)

// Fault is one fault of a request.
type Fault struct {
	// Pointer is the JSON pointer (RFC 6901) of the field, as the API names it.
	Pointer string
	Detail  string
	// TooLarge: the field is well formed, but over a size limit.
	TooLarge bool
}

// MaxFaults is how many faults are listed at most.
const MaxFaults = 100

// InvalidError lists the faults of a refused request. Nothing was stored.
type InvalidError struct{ Faults []Fault }

func (e *InvalidError) Error() string {
	all := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		all[i] = f.Pointer + " " + f.Detail
	}
	return "invalid request: " + strings.Join(all, "; ")
}

// faults collects the faults of the fields below a JSON pointer.
type faults struct {
	at   string
	list *[]Fault
}

func newFaults() faults { return faults{list: new([]Fault)} }

// refusal is the error of a check, which has added to f and may have failed itself. The caller's
// faults take precedence over our outage: they remain when the outage is over.
func (f faults) refusal(err error) error {
	switch {
	case len(*f.list) > 0:
		return &InvalidError{Faults: *f.list}
	case err != nil:
		return &SendError{Err: err}
	}
	return nil
}

func (f faults) add(pointer, format string, args ...any) {
	if len(*f.list) < MaxFaults {
		*f.list = append(*f.list, Fault{Pointer: f.at + pointer, Detail: fmt.Sprintf(format, args...)})
	}
}

func (f faults) tooLarge(pointer, format string, args ...any) {
	*f.list = append(*f.list, Fault{Pointer: f.at + pointer, Detail: fmt.Sprintf(format, args...), TooLarge: true})
}

// below returns a collector for one part of the request that adds to f.
func (f faults) below(pointer string) faults { return faults{f.at + pointer, f.list} }
