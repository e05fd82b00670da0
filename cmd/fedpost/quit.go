package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Keys that end a view, beside q. A terminal that hands over each key as it is typed sends
// control characters in place of signals.
const (
	interrupt  = 'C' - '@'
	endOfInput = 'D' - '@'
	abandon    = '\\' - '@'
)

// untilQuit reads keys of a terminal, and ends the context that it returns when one of them ends a
// view. restore gives the terminal its former settings. If in is no terminal, it is not read.
func untilQuit(ctx context.Context, in *os.File) (until context.Context, restore func() error, err error) {
	at := int(in.Fd())
	if !term.IsTerminal(at) {
		return ctx, func() error { return nil }, nil
	}
	before, err := term.MakeRaw(at)
	if err != nil {
		return nil, nil, fmt.Errorf("read keys of the terminal: %w", err)
	}
	until, cancel := context.WithCancel(ctx)
	// It ends with the process: nothing interrupts a read of a terminal.
	go func() {
		defer cancel()
		readUntilQuit(in)
	}()
	return until, func() error {
		cancel()
		return term.Restore(at, before)
	}, nil
}

// readUntilQuit reads keys up to one that ends a view, or to the end of the terminal.
func readUntilQuit(keys io.Reader) {
	for key := make([]byte, 1); ; {
		n, err := keys.Read(key)
		switch {
		case err != nil:
			return
		case n == 0:
		case key[0] == 'q', key[0] == 'Q', key[0] == interrupt, key[0] == endOfInput, key[0] == abandon:
			return
		}
	}
}
