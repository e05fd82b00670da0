package docs

import (
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestEveryClientHasEveryOperation of openapi.yaml, with its method and path. That the Go
// client has them, its own test shows by making each call.
func TestEveryClientHasEveryOperation(t *testing.T) {
	var d struct {
		Paths map[string]map[string]yaml.Node
	}
	if err := yaml.Unmarshal([]byte(read(t, "openapi.yaml")), &d); err != nil {
		t.Fatal(err)
	}
	described := map[string]string{}
	for path, item := range d.Paths {
		for method, operation := range item {
			if method == "parameters" {
				continue
			}
			var o struct {
				OperationID string `yaml:"operationId"`
			}
			if err := operation.Decode(&o); err != nil {
				t.Fatal(err)
			}
			described[o.OperationID] = strings.ToUpper(method) + " " + path
		}
	}
	if len(described) < 30 {
		t.Fatalf("openapi.yaml has %d operations: the test reads it wrong", len(described))
	}
	// A line of a table of routes, in either language.
	line := regexp.MustCompile(`(?m)^\s+"?(\w+)"?: [\[(]"([A-Z]+)", "(/[^"]*)", `)
	for _, file := range []string{"../clients/typescript/src/routes.ts", "../clients/python/src/fedpost/_routes.py"} {
		known := map[string]string{}
		for _, m := range line.FindAllStringSubmatch(read(t, file), -1) {
			known[m[1]] = m[2] + " " + m[3]
		}
		for id, call := range described {
			if known[id] != call {
				t.Errorf("%s: %s is %q, in openapi.yaml %q", file, id, known[id], call)
			}
		}
		for id := range known {
			if described[id] == "" {
				t.Errorf("%s: openapi.yaml has no operation %s", file, id)
			}
		}
	}
}

// TestTheClientsHaveTheVersionOfFedpost, each as its registry writes it.
func TestTheClientsHaveTheVersionOfFedpost(t *testing.T) {
	version := strings.TrimSpace(read(t, "../cmd/fedpost/VERSION"))
	for file, want := range map[string]string{
		"../clients/typescript/package.json": `"version": "` + version + `"`,
		"../clients/fedify/package.json":     `"version": "` + version + `"`,
		"../clients/python/pyproject.toml":   `version = "` + strings.Replace(version, "-dev", ".dev0", 1) + `"`,
	} {
		if !strings.Contains(read(t, file), want) {
			t.Errorf("%s does not say %s", file, want)
		}
	}
}
