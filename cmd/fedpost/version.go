package main

import (
	"fmt"
	"io"
	"runtime"
)

// versionCommand prints what was built, as the Go tool has noted it in the binary.
type versionCommand struct{}

// Run prints the version on one line.
func (versionCommand) Run(out io.Writer) error {
	_, err := fmt.Fprintf(out, "fedpost %s, %s, %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
