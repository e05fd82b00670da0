// Package binary builds programs that tests run as processes of their own.
//
// `go build` links a program anew for each output, which costs some seconds of a processor.
// Build takes the program from the go command's build cache, where `go run` has kept whole
// programs since Go 1.24, so that all test binaries and all runs on the same tree share one
// link.
package binary

import (
	"fmt"
	"os/exec"
)

// Build puts the program of a package at path out, built with flags of `go build` and
// variables of environ, which is nil for those of this process.
func Build(out, pkg string, environ []string, flags ...string) error {
	// `go run` hands the program and its arguments to the command of -exec.
	args := append([]string{"run", "-exec", "cp"}, flags...)
	cmd := exec.Command("go", append(args, pkg, out)...)
	cmd.Env = environ
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, said)
	}
	return nil
}
