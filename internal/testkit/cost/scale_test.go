package cost_test

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"fedpost/internal/testkit/cost"
	"fedpost/internal/testkit/template"
)

var update = flag.Bool("update", false, "write the tables of docs/costs.md and docs/scale.md")

func defaults(t *testing.T) cost.Template {
	t.Helper()
	tmpl, err := template.Load("../../../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string) float64 {
		n, ok := tmpl.Default(name).(int)
		if !ok {
			t.Fatalf("the parameter %s has no number as its default", name)
		}
		return float64(n)
	}
	return cost.Template{
		RequestsPerSecond: of("RequestsPerSecond"), NormalConcurrency: of("NormalConcurrency"),
		EnqueueConcurrency: of("EnqueueConcurrency"), Memory: int(of("DeliverMemory")),
	}
}

// TestScaleIsDocumented: the tables of docs/scale.md are what the model says.
func TestScaleIsDocumented(t *testing.T) {
	tmpl := defaults(t)
	documented(t, "../../../docs/scale.md", map[string]string{
		"million": cost.Million(tmpl).Markdown(), "rush": cost.Rush(tmpl).Markdown(), "outage": cost.Outage(tmpl).Markdown(),
	})
}

// documented compares sections of a document, between <!-- name --> and <!-- end -->, with
// what they have to be, or writes them.
func documented(t *testing.T, path string, sections map[string]string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	for name, content := range sections {
		section := regexp.MustCompile("(?s)<!-- " + name + " -->\n.*?<!-- end -->")
		if !section.MatchString(doc) {
			t.Fatalf("%s has no section %s", path, name)
		}
		want := "<!-- " + name + " -->\n" + content + "<!-- end -->"
		if *update {
			doc = section.ReplaceAllLiteralString(doc, want)
		} else if section.FindString(doc) != want {
			t.Errorf("%s is out of date: go test ./internal/testkit/cost -run Documented -update\n%s", path, want)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatBreaksFirst: with the template's defaults it is a parameter, which an operator
// can raise; with parameters for the load it is what docs/scale.md says.
func TestWhatBreaksFirst(t *testing.T) {
	for _, c := range []struct {
		scenario func(cost.Template) cost.Scenario
		first    string
	}{
		{cost.Million, "invocations at once"},
		{cost.Rush, "calls a second"},
		{cost.Outage, "probes a minute in the first two hours"},
	} {
		if got := c.scenario(defaults(t)).Breaks(); !strings.HasPrefix(got.What, c.first) {
			t.Errorf("first breaks %q, %v of %v, want %q", got.What, got.Need, got.Limit, c.first)
		}
	}
	large := defaults(t)
	large.NormalConcurrency, large.RequestsPerSecond, large.EnqueueConcurrency = 1000, 10_000, 1000
	within := map[string]bool{}
	for _, d := range cost.Million(large).Demands {
		within[d.Whose+" "+d.What] = d.Need <= d.Limit
	}
	for what, fits := range within {
		if strings.Contains(what, "hottest key") && fits {
			t.Error("a thousand invocations at once do not wear out the partition of one call")
		}
	}
	for _, d := range cost.Rush(large).Demands {
		if d.Need > d.Limit {
			t.Errorf("with parameters for it, ten thousand activities a minute need %.0f %s of %.0f", d.Need, d.What, d.Limit)
		}
	}
}
