package cost

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Snapshot is the usage up to a moment, or between two moments.
type Snapshot map[Op]Usage

// Snapshot returns the usage so far.
func (c *Meter) Snapshot() Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Snapshot(maps.Clone(c.usage))
}

// Since returns the usage between the snapshots earlier and s.
func (s Snapshot) Since(earlier Snapshot) Snapshot {
	d := make(Snapshot)
	for op, u := range s {
		if u = u.plus(earlier[op].negative()); u != (Usage{}) {
			d[op] = u
		}
	}
	return d
}

// Service returns the sum over the operations of a service, or of all services if name
// is empty.
func (s Snapshot) Service(name string) Usage {
	var sum Usage
	for op, u := range s {
		if name == "" || op.Service == name {
			sum = sum.plus(u)
		}
	}
	return sum
}

// Ops lists the operations, sorted.
func (s Snapshot) Ops() []Op {
	return slices.SortedFunc(maps.Keys(s), func(a, b Op) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Operation, b.Operation))
	})
}

// Per formats s as a table of the usage per thing, for n things such as recipients.
func (s Snapshot) Per(n int, thing string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "per %s\trequests\tSQS units\tread units\twrite units\t\n", thing)
	line := func(name string, u Usage) {
		f := float64(n)
		fmt.Fprintf(w, "%s\t%.4f\t%.4f\t%.4f\t%.4f\t\n", name,
			float64(u.Requests)/f, float64(u.PayloadUnits)/f, u.ReadUnits/f, u.WriteUnits/f)
	}
	for _, op := range s.Ops() {
		line(op.Service+" "+op.Operation, s[op])
	}
	line("all", s.Service(""))
	w.Flush() // a strings.Builder takes everything
	return b.String()
}

func (u Usage) plus(v Usage) Usage {
	return Usage{
		Requests: u.Requests + v.Requests, Failures: u.Failures + v.Failures, PayloadUnits: u.PayloadUnits + v.PayloadUnits,
		ReadUnits: u.ReadUnits + v.ReadUnits, WriteUnits: u.WriteUnits + v.WriteUnits,
	}
}

func (u Usage) negative() Usage {
	return Usage{-u.Requests, -u.Failures, -u.PayloadUnits, -u.ReadUnits, -u.WriteUnits}
}
