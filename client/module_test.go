package client_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpost/internal/testkit/long"
)

// TestTheModuleGetsAnotherPath: `make module` leaves no import of the old one.
func TestTheModuleGetsAnotherPath(t *testing.T) {
	long.Only(t, "copies the tree and lists its packages")
	dir := t.TempDir()
	if err := os.CopyFS(dir, tracked{os.DirFS("..")}); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run("make", "module", "PATH=example.org/post/fedpost")
	for pkg := range strings.Lines(run("go", "list", "-deps", "-test", "./...")) {
		if strings.HasPrefix(pkg, "fedpost/") {
			t.Errorf("%s is imported still", strings.TrimSpace(pkg))
		}
	}
	run("go", "test", "-run", "House|RulesOfTheHouse", "./internal")
	for _, file := range []string{".ci/run", "localstack/docker-test.sh"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), " fedpost/internal") || strings.Contains(string(text), `"fedpost/internal`) {
			t.Errorf("%s names the old path", file)
		}
	}
}

// TestTheProgramOfTheREADMECompiles in a module of its own, installed as the README says.
func TestTheProgramOfTheREADMECompiles(t *testing.T) {
	long.Only(t, "compiles a program")
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(text), "```go\n")
	program, _, found := strings.Cut(program, "```")
	root, err := filepath.Abs("..")
	if err != nil || !found {
		t.Fatal("the README has no program", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"mod", "init", "example.org/app"},
		{"mod", "edit", "-replace", "fedpost=" + root},
		{"get", "fedpost/client"},
		{"vet", "."},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
	}
}

// tracked leaves out what is not part of the tree.
type tracked struct{ fs.FS }

// ReadDir implements fs.ReadDirFS.
func (f tracked) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(all, func(e fs.DirEntry) bool {
		return slices.Contains([]string{".git", ".tools", "bin", "dist", "node_modules"}, e.Name())
	}), err
}
