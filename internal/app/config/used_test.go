package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// A setting that no code reads promises operators an effect that it does not
// have.
func TestEverySettingIsRead(t *testing.T) {
	var code strings.Builder
	for _, dir := range []string{".", "..", "../lambda", "../tracing", "../../../cmd/fedpost"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
	}
	for _, p := range programs {
		for _, concern := range concerns(p.cfg) {
			for _, f := range fields(concern.Type().Elem()) {
				// As a field of its concern, c.Circuit.Window, or, in a method
				// or where only the concern is passed, as that of a variable.
				used := regexp.MustCompile(`\b\w+\.` + f.name + `\b`)
				if !used.MatchString(code.String()) {
					t.Errorf("%s (%s.%s) is read by nothing", f.Setting.Name, concern.Type().Elem().Name(), f.name)
				}
			}
		}
	}
}

// TestEachProgramReadsAllOfItsConcerns: a concern that a function does not read
// must not be listed as read, or the template could set its variables without
// effect.
func TestEachProgramReadsAllOfItsConcerns(t *testing.T) {
	used := map[string]map[string]bool{}
	for _, dir := range []string{"..", "../lambda"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					selections(fn, used)
				}
			}
		}
	}
	for _, cfg := range []any{&Enqueue{}, &Deliver{}, &HealthCheck{}, &AWS{}} {
		program := reflect.TypeOf(cfg).Elem()
		for i := range program.NumField() {
			if concern := program.Field(i).Name; !used[program.Name()][concern] {
				t.Errorf("config.%s lists %s, which nothing reads of it", program.Name(), concern)
			}
		}
	}
}

// selections collects the fields that a function reads of variables and
// parameters whose type is of this package.
func selections(fn *ast.FuncDecl, used map[string]map[string]bool) {
	programOf := map[string]string{}
	bind := func(names []*ast.Ident, of ast.Expr) {
		if s, ok := of.(*ast.SelectorExpr); ok {
			if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "config" {
				for _, n := range names {
					programOf[n.Name] = s.Sel.Name
				}
			}
		}
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			bind(n.Names, n.Type)
		case *ast.ValueSpec:
			bind(n.Names, n.Type)
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && programOf[x.Name] != "" {
				program := programOf[x.Name]
				if used[program] == nil {
					used[program] = map[string]bool{}
				}
				used[program][n.Sel.Name] = true
			}
		}
		return true
	})
}
