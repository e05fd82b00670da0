package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// branches finds where code depends on which protocol it handles: comparisons, cases and look-ups
// by a protocol's name. names are the constants of package activity, values what they stand for.
func branches(fset *token.FileSet, f *ast.File, names, values []string) (found []string) {
	var named func(e ast.Expr) bool
	named = func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.ParenExpr:
			return named(e.X)
		case *ast.CallExpr: // a conversion
			return len(e.Args) == 1 && named(e.Args[0])
		case *ast.SelectorExpr:
			pkg, ok := e.X.(*ast.Ident)
			return ok && pkg.Name == "activity" && slices.Contains(names, e.Sel.Name)
		case *ast.BasicLit:
			s, err := strconv.Unquote(e.Value)
			return err == nil && e.Kind == token.STRING && slices.Contains(values, s)
		}
		return false
	}
	ast.Inspect(f, func(n ast.Node) bool {
		var asked []ast.Expr
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				asked = []ast.Expr{n.X, n.Y}
			}
		case *ast.CaseClause:
			asked = n.List
		case *ast.IndexExpr:
			asked = []ast.Expr{n.Index}
		}
		if slices.ContainsFunc(asked, named) {
			found = append(found, fmt.Sprint(fset.Position(n.Pos())))
		}
		return true
	})
	return found
}

// protocolNames reads the protocols' constants from package activity.
func protocolNames(t *testing.T) (names, values []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "activity/activity.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Protocol" {
			return true
		}
		for i, name := range spec.Names {
			value, err := strconv.Unquote(spec.Values[i].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names, values = append(names, name.Name), append(values, value)
		}
		return true
	})
	if len(names) < 2 {
		t.Fatalf("the protocols are %q: the test looks in the wrong place", names)
	}
	return names, values
}

// A protocol is its package and one registration, which has all that others need to know of it.
func TestNobodyAsksWhichProtocolItIs(t *testing.T) {
	names, values := protocolNames(t)
	read := 0
	for _, pattern := range []string{"*/*.go", "*/*/*.go", "*/*/*/*.go", "../cmd/*/*.go", "../functions/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			path := filepath.ToSlash(file)
			if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "protocol/") || strings.HasPrefix(path, "testkit/") {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			read++
			for _, at := range branches(fset, f, names, values) {
				t.Errorf("%s asks for a protocol by its name: let its registration (protocol.Protocol) say what differs", at)
			}
		}
	}
	if read < 200 {
		t.Errorf("only %d files were read", read)
	}
}

func TestABranchOnAProtocolIsFound(t *testing.T) {
	for code, want := range map[string]int{
		`if a.Protocol == activity.Sipher {}`:                   1,
		`if string(activity.Sipher) != s {}`:                    1,
		`if p == "sipher" {}`:                                   1,
		`switch p { case activity.ActivityPub: case "other": }`: 1,
		`_ = routes[activity.Sipher]`:                           1,
		`_ = activity.Sipher; if p == q {}`:                     0,
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "x.go", "package x\nfunc f() {\n"+code+"\n}", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := branches(fset, f, []string{"ActivityPub", "Sipher"}, []string{"activitypub", "sipher"}); len(got) != want {
			t.Errorf("%s: found %v, want %d", code, got, want)
		}
	}
}
