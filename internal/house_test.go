// Package internal_test holds the rules of the house: which rooms there are below
// internal/, and which room may import which.
package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "fedpost/"
	house  = "internal/"
)

// rooms lists, for each room, the rooms that its packages may import. Tests may
// import what they like.
var rooms = map[string][]string{
	"activity": {},
	"engine":   {},
	"keys":     {},
	"message":  {"activity", "engine"},
	"protocol": {"activity", "keys"},
	"servers":  {"activity", "engine", "message"},
	"ledger":   {"activity", "engine", "message", "servers"},

	"enqueue":     {"activity", "engine", "keys", "ledger", "message", "protocol"},
	"deliver":     {"activity", "engine", "keys", "ledger", "message", "protocol", "servers"},
	"healthcheck": {"activity", "engine", "ledger", "message", "protocol", "servers"},

	"store": {"activity", "deliver", "engine", "enqueue", "keys", "ledger", "message", "protocol", "servers"},
	"api":   {"activity", "deliver", "engine", "enqueue", "keys", "ledger", "message", "protocol", "servers"},
	"app": {
		"activity", "api", "deliver", "engine", "enqueue", "healthcheck", "keys", "ledger", "message", "protocol",
		"servers", "store",
	},
	"testkit": {
		"activity", "api", "app", "deliver", "engine", "enqueue", "healthcheck", "keys", "ledger", "message", "protocol",
		"servers", "store",
	},
}

// forbidden lists the rooms that nothing outside of internal/ may import.
var forbidden = []string{"testkit", "store"}

// arrow is an import of one of our packages by another.
type arrow struct{ from, to string }

// room is the room of a package, or "" outside of internal/.
func room(pkg string) string {
	in, ok := strings.CutPrefix(pkg, house)
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(in, "/")
	return name
}

// public is the folder of the Go client, which programs elsewhere import.
const public = "client"

// broken says which rule an arrow breaks, or "".
func (a arrow) broken() string {
	from, to := room(a.from), room(a.to)
	if a.from == public || strings.HasPrefix(a.from, public+"/") {
		if to == "" {
			return ""
		}
		return fmt.Sprintf("%s imports %s: the public client must not import internal/", a.from, a.to)
	}
	if from == to || to == "" {
		return ""
	}
	allowed := slices.Contains(rooms[from], to)
	if from == "" {
		from, _, _ = strings.Cut(a.from, "/")
		allowed = !slices.Contains(forbidden, to)
	}
	if allowed {
		return ""
	}
	return fmt.Sprintf("%s imports %s: %s must not import %s", a.from, a.to, from, to)
}

// parsed calls visit for each Go file below the root of the project, by its path from there.
func parsed(t *testing.T, mode parser.Mode, visit func(file string, f *ast.File)) {
	t.Helper()
	root := ".."
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name != ".." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, mode)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(rel), f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// imports reads the arrows between our packages, tests left out.
func imports(t *testing.T) []arrow {
	t.Helper()
	arrows := map[arrow]bool{}
	parsed(t, parser.ImportsOnly, func(file string, f *ast.File) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if to, ours := strings.CutPrefix(p, module); ours {
				arrows[arrow{path.Dir(file), to}] = true
			}
		}
	})
	return slices.SortedFunc(maps.Keys(arrows), func(a, b arrow) int {
		return strings.Compare(a.from+" "+a.to, b.from+" "+b.to)
	})
}

func TestEveryImportFollowsTheRulesOfTheHouse(t *testing.T) {
	arrows := imports(t)
	if len(arrows) < 100 {
		t.Fatalf("only %d imports were found: the test looks in the wrong place", len(arrows))
	}
	for _, a := range arrows {
		if broken := a.broken(); broken != "" {
			t.Error(broken)
		}
	}
}

func TestABrokenRuleIsNamed(t *testing.T) {
	for want, a := range map[string]arrow{
		"internal/ledger/stats imports internal/enqueue: ledger must not import enqueue":     {"internal/ledger/stats", "internal/enqueue"},
		"internal/deliver imports internal/healthcheck: deliver must not import healthcheck": {"internal/deliver", "internal/healthcheck"},
		"internal/api imports internal/store: api must not import store":                     {"internal/api", "internal/store"},
		"internal/store imports internal/testkit/faults: store must not import testkit":      {"internal/store", "internal/testkit/faults"},
		"cmd/fedpost imports internal/testkit/world: cmd must not import testkit":            {"cmd/fedpost", "internal/testkit/world"},
		"internal/activity/outcome imports internal/keys: activity must not import keys":     {"internal/activity/outcome", "internal/keys"},
		"internal/attic imports internal/keys: attic must not import keys":                   {"internal/attic", "internal/keys"},
		"client imports internal/api: the public client must not import internal/":           {"client", "internal/api"},
	} {
		if got := a.broken(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, a := range []arrow{{"internal/api/operator", "internal/api/problem"}, {"cmd/fedpost", "internal/app"}, {"client/awsauth", "client"}} {
		if got := a.broken(); got != "" {
			t.Errorf("%+v breaks a rule: %q", a, got)
		}
	}
}

func TestEveryFolderOfTheHouseIsARoom(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, e := range entries {
		if e.IsDir() {
			there = append(there, e.Name())
		}
	}
	slices.Sort(there)
	if want := slices.Sorted(maps.Keys(rooms)); !slices.Equal(there, want) {
		t.Errorf("internal/ has the rooms %v, want %v", there, want)
	}
}

// TestNoCircleOfRoomsIsAllowed: a rule by which two rooms import each other would be none.
func TestNoCircleOfRoomsIsAllowed(t *testing.T) {
	var visit func(name string, above []string)
	visit = func(name string, above []string) {
		if slices.Contains(above, name) {
			t.Fatalf("%v import each other", append(above, name))
		}
		for _, next := range rooms[name] {
			visit(next, append(slices.Clip(above), name))
		}
	}
	for name := range rooms {
		visit(name, nil)
	}
}

// catalogue finds a number of a list that readers do not have, such as TestB17NothingIsLost, but
// not a status of HTTP.
var catalogue = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)([A-Z]|Issue|Bug)_?[0-9]{1,2}([^0-9]|$)`)

// unsteady are the functions that draw from seeds of their own, by package.
var unsteady = map[string]*regexp.Regexp{
	"rapid": regexp.MustCompile(`^(Make)?Check$`),
	"rand":  regexp.MustCompile(`^(N|Perm|Shuffle|(Exp|Norm)?Float(32|64)|U?[iI]nt(32|64)?N?)$`),
}

// drawing lists the files of tests that draw new seeds, and print them, because they look for
// the unknown.
var drawing = []string{
	"bench/kill_test.go", "internal/testkit/property/property.go", "internal/testkit/simulation/simulation_test.go",
}

// faults says what is wrong in a file of tests.
func faults(f *ast.File) []string {
	var all []string
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && catalogue.MatchString(n.Name.Name) {
				all = append(all, n.Name.Name+" is named after a number: name the behaviour")
			}
		case *ast.SelectorExpr:
			// A variable that is called rand is the test's own source.
			from, ok := n.X.(*ast.Ident)
			if ok && from.Obj == nil && unsteady[from.Name] != nil && unsteady[from.Name].MatchString(n.Sel.Name) {
				all = append(all, from.Name+"."+n.Sel.Name+" draws anew in each run: call package property of testkit")
			}
		}
		return true
	})
	return all
}

func TestTestsAreNamedAfterBehaviourAndDrawTheSameInEachRun(t *testing.T) {
	files := 0
	parsed(t, 0, func(file string, f *ast.File) {
		suite := strings.HasSuffix(path.Dir(file), "test") || strings.HasPrefix(file, house+"testkit/")
		if !suite && !strings.HasSuffix(file, "_test.go") || slices.Contains(drawing, file) {
			return
		}
		files++
		for _, fault := range faults(f) {
			t.Errorf("%s: %s", file, fault)
		}
	})
	if files < 300 {
		t.Errorf("only %d files of tests were found: the test looks in the wrong place", files)
	}
}

func TestAFaultOfATestIsNamed(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "a_test.go", `package a
		func TestB17(t *testing.T) { rapid.Check(t, prop); _ = rand.N(3) }
		func TestC3_NothingIsLost(t *testing.T) { rand := property.Rand(t); rand.N(3) }
		func TestA401IsNoFailure(t *testing.T) { property.Check(t, prop); rand.New(s) }
		func TestHTTP2(t *testing.T) {}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"TestB17 is named after a number: name the behaviour",
		"rapid.Check draws anew in each run: call package property of testkit",
		"rand.N draws anew in each run: call package property of testkit",
		"TestC3_NothingIsLost is named after a number: name the behaviour",
	}
	if got := faults(f); !slices.Equal(got, want) {
		t.Errorf("the faults are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
