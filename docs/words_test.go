package docs

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// metaphors are words of our own, for which the field has others: client, connection,
// close-notify, listener, finished, fail, reported.
var metaphors = regexp.MustCompile(`(?i)\b(guests?|meetings?|farewells?|doors?|c(omes?|ame|oming) to (its|their|an) ends?|` +
	`c(omes?|ame|oming) to nothing|(is|are|was|were|be|been) told of|tells? of)\b`)

// TestWordsAreThoseOfTheField in documents, texts and the comments of what is shipped.
func TestWordsAreThoseOfTheField(t *testing.T) {
	const skipped = "node_modules dist bin testdata testkit .git .tools .venv"
	checked := 0
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(strings.Fields(skipped), d.Name()):
			return fs.SkipDir
		case d.IsDir(), strings.HasSuffix(p, "_test.go"),
			!slices.Contains([]string{".md", ".go", ".yaml", ".html", ".js", ".ts", ".py", ".sh"}, filepath.Ext(p)):
			return nil
		}
		checked++
		for i, line := range strings.Split(read(t, p), "\n") {
			if found := metaphors.FindString(line); found != "" {
				t.Errorf("%s:%d: %q: say it in words of the field", p, i+1, found)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 300 {
		t.Errorf("only %d files were found", checked)
	}
}

// TestTheDescriptionsOfTheAPIAreComplete: YAML takes a # after a space, and what follows, for a
// comment.
func TestTheDescriptionsOfTheAPIAreComplete(t *testing.T) {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(read(t, "openapi.yaml")), &root); err != nil {
		t.Fatal(err)
	}
	checked := 0
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		for i, child := range n.Content {
			if i > 0 && child.Kind == yaml.ScalarNode && n.Kind == yaml.MappingNode && n.Content[i-1].Value == "description" && i%2 == 1 {
				checked++
				if text := strings.TrimSpace(child.Value); !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, ")") {
					t.Errorf("openapi.yaml:%d: this description has no end: %q", child.Line, text)
				}
			}
			walk(child)
		}
	}
	walk(&root)
	if checked < 300 {
		t.Errorf("only %d descriptions were found", checked)
	}
}
