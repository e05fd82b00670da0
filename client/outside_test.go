package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fedpost/internal/testkit/long"
)

// outside is a program of somebody else.
const outside = `package main

import (
	"context"
	"errors"
	"fmt"

	"fedpost/client"
)

func main() {
	c, err := client.New("http://127.0.0.1:1", client.Patience(0))
	if err != nil {
		panic(err)
	}
	var s client.Submission
	s.Recipients = client.To("https://a.example/inbox")
	_, err = c.Send(context.Background(), s)
	fmt.Println(errors.Is(err, client.ErrNoAnswer))
}
`

// TestAModuleElsewhereBuildsWithTheClient, and links neither AWS's SDK nor internal packages.
func TestAModuleElsewhereBuildsWithTheClient(t *testing.T) {
	long.Only(t, "compiles a module of its own")
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// The requirements of fedpost, as "go get" would take them over.
	mod := strings.Replace(string(own), "module fedpost", "module social.example/app", 1) + "\nrequire fedpost v0.0.0\n\nreplace fedpost => " + root + "\n"
	for name, text := range map[string]string{"go.mod": mod, "go.sum": string(sums), "main.go": outside} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -trimpath", "GOPROXY=off", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if got := run("run", "."); got != "true\n" {
		t.Errorf("the program prints %q", got)
	}
	for pkg := range strings.Lines(run("list", "-deps", ".")) {
		if pkg = strings.TrimSpace(pkg); strings.Contains(pkg, "aws-sdk-go") || strings.HasPrefix(pkg, "fedpost/internal") {
			t.Errorf("the program links %s", pkg)
		}
	}
}
