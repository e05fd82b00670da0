// Package progress reports the progress of long work to the command that prints it, through the
// context.
package progress

import (
	"context"
	"io"
	"os"
)

// Part is how much of a step is done, and how much it is in all; 0: not known.
type Part func() (done, all int64)

// Of is the progress of reading a file; not known for a pipe.
func Of(f *os.File) Part {
	return func() (done, all int64) {
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return 0, 0
		}
		done, err = f.Seek(0, io.SeekCurrent)
		if err != nil {
			return 0, 0
		}
		return done, info.Size()
	}
}

type key struct{}

// With returns a context whose work calls begin for each step.
func With(ctx context.Context, begin func(what string, part Part)) context.Context {
	return context.WithValue(ctx, key{}, begin)
}

// Begin reports a new step. part, which may be nil, is called until the next step begins.
func Begin(ctx context.Context, what string, part Part) {
	if begin, ok := ctx.Value(key{}).(func(string, Part)); ok {
		begin(what, part)
	}
}
