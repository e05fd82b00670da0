package template_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryAlarmIsExplained: docs/operations.md says for every alarm what to do, and
// explains no alarm that the template lacks.
func TestEveryAlarmIsExplained(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	in := map[string]bool{}
	for _, m := range regexp.MustCompile(`AlarmName: !Sub \$\{AWS::StackName\}-(\S+)`).FindAllStringSubmatch(read("../../../template.yaml"), -1) {
		in[m[1]] = true
	}
	if len(in) < 5 {
		t.Fatalf("the template has only %d alarms", len(in))
	}
	explained := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\*\\*`…-(\\S+)`\\*\\*: \\S").FindAllStringSubmatch(read("../../../docs/operations.md"), -1) {
		explained[m[1]] = true
	}
	for name := range in {
		if !explained[name] {
			t.Errorf("docs/operations.md does not explain the alarm %q", name)
		}
	}
	for name := range explained {
		if !in[name] {
			t.Errorf("docs/operations.md explains the alarm %q, which the template does not have", name)
		}
	}
	if !strings.Contains(read("../../../README.md"), "docs/operations.md") {
		t.Error("the README does not lead to docs/operations.md")
	}
}
