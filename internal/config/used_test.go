package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A setting that nothing reads is a promise to operators that is not kept.
func TestEverySettingIsRead(t *testing.T) {
	var code strings.Builder
	for _, dir := range []string{".", "../stack", "../awsstack", "../../cmd/fedpost"} {
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
