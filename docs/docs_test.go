// Package docs holds the documents against the tree that they describe.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTheTreeIsThatOfTheFolders: architecture.md begins with every package of
// internal/, each once, in the place where it is.
func TestTheTreeIsThatOfTheFolders(t *testing.T) {
	var want []string
	err := filepath.WalkDir("../internal", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") {
			return err
		}
		if dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(p)), "../internal"); dir != "" {
			want = append(want, dir[1:])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	want = slices.Compact(want)

	_, rest, ok := strings.Cut(read(t, "architecture.md"), "```\ninternal/\n")
	if !ok {
		t.Fatal("architecture.md has no tree that begins with internal/")
	}
	tree, _, _ := strings.Cut(rest, "```")
	var got, above []string
	for line := range strings.Lines(tree) {
		name := strings.Fields(line)
		if len(name) == 0 {
			continue
		}
		depth := (len(line)-len(strings.TrimLeft(line, " ")))/2 - 1
		if depth < 0 || depth > len(above) {
			t.Fatalf("the tree's line %q stands below nothing", line)
		}
		above = append(above[:depth], strings.TrimSuffix(name[0], "/"))
		got = append(got, path.Join(above...))
		if len(name) < 3 {
			t.Errorf("the tree does not say what %s is for", path.Join(above...))
		}
	}
	for _, p := range want {
		if !slices.Contains(got, p) {
			t.Errorf("the tree lacks internal/%s", p)
		}
	}
	for _, p := range got {
		if _, err := os.Stat(filepath.Join("../internal", p)); err != nil {
			t.Errorf("the tree shows internal/%s, which does not exist", p)
		}
	}
}

var (
	link = regexp.MustCompile(`\]\(([^)\s#]*)(?:#([^)]*))?\)`)
	// quoted is a file of the project in backticks, with a function in it or not:
	// `internal/deliver/attempt.go` or `internal/deliver/attempt.go: Engine.Attempt`.
	quoted = regexp.MustCompile("`((?:internal|functions|cmd|localstack|deploy|bench|docs)/[\\w./-]*|template\\.yaml|Makefile)(?:: ([\\w.]+))?`")
)

// TestWhatTheDocumentsNameExists: links lead to a file and its heading, and each
// file and function in backticks is there.
func TestWhatTheDocumentsNameExists(t *testing.T) {
	files, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../bench/README.md",
		"../client/README.md", "../clients/README.md", "../clients/typescript/README.md", "../clients/fedify/README.md", "../clients/python/README.md") {
		text := read(t, file)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			to := file
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(file), m[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which does not exist", file, m[1])
			} else if m[2] != "" && !slices.Contains(anchors(read(t, to)), m[2]) {
				t.Errorf("%s links to %s, which has no heading #%s", file, to, m[2])
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			if err := named(m[1], m[2]); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// anchors are the names that GitHub gives to the headings of a page.
func anchors(page string) (all []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// named reports that a file, or a function in that file, does not exist. A
// method is written Type.Method.
func named(file, function string) error {
	text, err := os.ReadFile(filepath.Join("..", file))
	if function == "" {
		if _, err := os.Stat(filepath.Join("..", file)); err != nil {
			return fmt.Errorf("%s does not exist", file)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s does not exist", file)
	}
	pattern := `(?m)^func ` + regexp.QuoteMeta(function) + `[\[(]`
	if receiver, method, ok := strings.Cut(function, "."); ok {
		pattern = `(?m)^func \(\w+ \*?` + regexp.QuoteMeta(receiver) + `\) ` + regexp.QuoteMeta(method) + `\(`
	}
	if !regexp.MustCompile(pattern).Match(text) {
		return fmt.Errorf("%s has no function %s", file, function)
	}
	return nil
}

// TestTheTestsThatTheDocumentsNameExist, so that a promise does not outlive its
// test. A name that ends in … is the beginning of several.
func TestTheTestsThatTheDocumentsNameExist(t *testing.T) {
	var code strings.Builder
	for _, dir := range []string{"../internal", "../cmd", "../functions", "../bench", "../localstack"} {
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(p, "_test.go") {
				return err
			}
			code.WriteString(read(t, p))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, m := range regexp.MustCompile(`\b((?:Test|Fuzz)[A-Z]\w*)(…?)`).FindAllStringSubmatch(read(t, file), -1) {
			end := "("
			if m[2] != "" {
				end = ""
			}
			if !strings.Contains(code.String(), "func "+m[1]+end) {
				t.Errorf("%s names the test %s, which does not exist", file, m[1]+m[2])
			}
		}
	}
}

// TestEveryMutantIsInTheTable of testing.md, with the number of all.
func TestEveryMutantIsInTheTable(t *testing.T) {
	patches, err := filepath.Glob("../internal/testkit/mutants/testdata/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatal(patches, err)
	}
	page, mutants := read(t, "testing.md"), 0
	for _, patch := range patches {
		for _, m := range regexp.MustCompile(`(?m)^([a-z0-9.-]+)(?: internal/[a-z0-9/]+)+$`).FindAllStringSubmatch(read(t, patch), -1) {
			mutants++
			if !strings.Contains(page, "`"+m[1]+"`") {
				t.Errorf("testing.md does not name the mutant %s", m[1])
			}
		}
	}
	if all := fmt.Sprintf("finds all %d;", mutants); !strings.Contains(page, all) {
		t.Errorf("testing.md does not say that the default set %s", all)
	}
}

// TestTheDescriptionHasTheVersionOfTheProgram: the package has it from the same file.
func TestTheDescriptionHasTheVersionOfTheProgram(t *testing.T) {
	want := "\n  version: " + strings.TrimSpace(read(t, "../cmd/fedpost/VERSION")) + "\n"
	if description := read(t, "openapi.yaml"); !strings.Contains(description[:min(len(description), 500)], want) {
		t.Errorf("openapi.yaml does not say%q among its first lines", want)
	}
}

// TestTheFiguresOfTheReadmeWereMeasured: each bold figure of its first lines stands where it
// was measured.
func TestTheFiguresOfTheReadmeWereMeasured(t *testing.T) {
	first, _, _ := strings.Cut(read(t, "../README.md"), "\n## ")
	measured := read(t, "../bench/README.md") + read(t, "costs.md")
	figures := regexp.MustCompile(`\*\*(\$?\d[\d,.]*)\*\*`).FindAllStringSubmatch(first, -1)
	if len(figures) < 5 {
		t.Fatalf("only %d figures were found", len(figures))
	}
	for _, m := range figures {
		if !regexp.MustCompile(`(^|[^\d,.])` + regexp.QuoteMeta(strings.TrimPrefix(m[1], "$")) + `([^\d,]|$)`).MatchString(measured) {
			t.Errorf("README.md says %s, which neither bench/README.md nor costs.md has", m[1])
		}
	}
}
