package config

import (
	"os"
	"regexp"
	"testing"
)

// TestTheTemplateTakesNoRevivalThatFunctionsRefuse: a value that passes CloudFormation and no
// function takes would stop all of them.
func TestTheTemplateTakesNoRevivalThatFunctionsRefuse(t *testing.T) {
	text, err := os.ReadFile("../../../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)ReviveWithin:.*?AllowedPattern: "([^"]+)"`).FindSubmatch(text)
	if m == nil {
		t.Fatal("the template has no pattern for ReviveWithin")
	}
	pattern := regexp.MustCompile("^(?:" + string(m[1]) + ")$")
	for v, want := range map[string]bool{
		"0": true, "1d": true, "30d": true, "59d": true, "60d": true, "61d": false, "90d": false, "100d": false,
		"12h": true, "999h": true, "1399h": true, "1440h": true, "1441h": false, "2160h": false, "9999h": false,
	} {
		if got := pattern.MatchString(v); got != want {
			t.Errorf("the template takes %s: %t, want %t", v, got, want)
		}
		var c struct{ Circuit }
		if err := From(&c, map[string]string{"REVIVE_WITHIN": v}); want != (err == nil) {
			t.Errorf("the functions take %s: error %v, want it taken: %t", v, err, want)
		}
	}
}
