package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// contextless are slog's methods that take no context.
var contextless = []string{"Debug", "Info", "Warn", "Error"}

// withoutContext finds log lines that are written without a context: calls such as
// x.Log.Warn(…) and log.Error(…).
func withoutContext(fset *token.FileSet, f *ast.File) (found []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains(contextless, method.Sel.Name) {
			return true
		}
		name := ""
		switch x := method.X.(type) {
		case *ast.Ident:
			name = x.Name
		case *ast.SelectorExpr:
			name = x.Sel.Name
		}
		if name = strings.ToLower(name); name == "log" || name == "logger" || name == "slog" {
			found = append(found, fmt.Sprint(fset.Position(n.Pos())))
		}
		return true
	})
	return found
}

// TestEveryLogLineHasAContext: on Lambda the context brings the request id, by which an
// operator finds all lines of one invocation.
func TestEveryLogLineHasAContext(t *testing.T) {
	sample, err := parser.ParseFile(token.NewFileSet(), "sample.go", `package p
		func f() { u.v.Log.Warn("x"); log.Error("y"); slog.Info("z"); r.Error("no log"); log.WarnContext(ctx, "w") }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if found := withoutContext(token.NewFileSet(), sample); len(found) != 3 {
		t.Fatalf("the sample has 3 such lines, found are %q", found)
	}
	files := 0
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name == "testkit" {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files++
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			return err
		}
		for _, at := range withoutContext(fset, f) {
			t.Errorf("%s: this line of the log gets no context, and so no request id", at)
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d files read: %v", files, err)
	}
}
