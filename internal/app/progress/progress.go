// Package progress lets long work say how far it is. What knows that, such as the place in a
// file, is far below the command that prints it, so the way there is the context.
package progress

import (
	"context"
	"io"
	"os"
)

// Part is how much of a step is done, and of how much; 0: not known.
type Part func() (done, all int64)

// Of is the part of a file that is read: 0 of 0 if the file is a pipe.
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

// With returns a context whose work tells each step that it begins.
func With(ctx context.Context, begin func(what string, part Part)) context.Context {
	return context.WithValue(ctx, key{}, begin)
}

// Begin says, if somebody wants to know, that work is at a new step. part, which may be nil, is
// called until the next step begins.
func Begin(ctx context.Context, what string, part Part) {
	if begin, ok := ctx.Value(key{}).(func(string, Part)); ok {
		begin(what, part)
	}
}
