package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheWorkflowsRunEverySection of .ci/run, and testing.md names those of the night.
func TestTheWorkflowsRunEverySection(t *testing.T) {
	run := read(t, "../.ci/run")
	sections := func(array string) []string {
		return strings.Fields(only(t, run, `(?m)^`+array+`=\((.*)\)$`))
	}
	lint, every := sections("LINT"), sections("CI")
	var jobs []string
	for _, m := range regexp.MustCompile(`(?m)^ +sections: (.*)$`).FindAllStringSubmatch(read(t, "../.github/workflows/ci.yml"), -1) {
		for _, s := range strings.Fields(m[1]) {
			if s == "lint" {
				jobs = append(jobs, lint...)
			} else {
				jobs = append(jobs, s)
			}
		}
	}
	same(t, "the jobs of ci.yml", jobs, every)

	night := sections("NIGHTLY")
	matrix := only(t, read(t, "../.github/workflows/nightly.yml"), `(?m)^ +section: \[(.*)\]$`)
	same(t, "the matrix of nightly.yml", strings.Split(matrix, ", "), night)
	told := only(t, read(t, "testing.md"), `\*\*Only the night\*\* \(([^)]*)\)`)
	same(t, "testing.md", strings.Split(strings.ReplaceAll(told, "`", ""), ", "), night)
}

// only returns the group of the one match of a pattern.
func only(t *testing.T, text, pattern string) string {
	t.Helper()
	all := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
	if len(all) != 1 {
		t.Fatalf("%d matches of %s, want 1", len(all), pattern)
	}
	return all[0][1]
}

func same(t *testing.T, where string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s: sections %v, .ci/run has %v", where, got, want)
	}
}
