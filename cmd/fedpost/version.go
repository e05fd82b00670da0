package main

import (
	_ "embed"
	"fmt"
	"io"
	"runtime"
	"strings"
)

// versionFile is the one place that says the version: the packages are named after it, too.
//
//go:embed VERSION
var versionFile string

// release is the version of fedpost.
func release() string { return strings.TrimSpace(versionFile) }

// versionCommand prints the version, and what it was built from, as the Go tool has recorded
// it in the binary.
type versionCommand struct{}

// Run prints the version on one line.
func (versionCommand) Run(out io.Writer) error {
	_, err := fmt.Fprintln(out, versionLine())
	return err
}

func versionLine() string {
	return fmt.Sprintf("fedpost %s (%s), %s, %s/%s", release(), strings.Trim(version(), "()"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
