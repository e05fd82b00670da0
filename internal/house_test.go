// Package internal_test holds the rules of the house: which rooms there are below
// internal/, and which room may import which.
package internal_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
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

// broken says which rule an arrow breaks, or "".
func (a arrow) broken() string {
	from, to := room(a.from), room(a.to)
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

// imports reads the arrows between our packages, tests left out.
func imports(t *testing.T) []arrow {
	t.Helper()
	arrows := map[arrow]bool{}
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
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if to, ours := strings.CutPrefix(p, module); ours {
				arrows[arrow{path.Dir(filepath.ToSlash(rel)), to}] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
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
	} {
		if got := a.broken(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, a := range []arrow{{"internal/api/operator", "internal/api/problem"}, {"cmd/fedpost", "internal/app"}} {
		if got := a.broken(); got != "" {
			t.Error(got)
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

// TestNoCircleOfRoomsIsAllowed: a rule that two rooms import each other would be
// none.
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
