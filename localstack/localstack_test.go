// Package localstack tests what can be tested of these scripts without Docker:
// that compose.yaml says what its scripts and files say.
package localstack

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

type compose struct {
	Services map[string]struct {
		Image       string
		Ports       []string
		Environment map[string]string
		Volumes     []string
	}
}

func readCompose(t *testing.T) compose {
	t.Helper()
	data, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	if c.Services["localstack"].Image == "" {
		t.Fatal("there is no service localstack")
	}
	return c
}

func TestWhatComposeMountsExists(t *testing.T) {
	built := []string{"../dist", "/var/run/docker.sock"} // by make build, by Docker
	for _, v := range readCompose(t).Services["localstack"].Volumes {
		source, _, _ := strings.Cut(v, ":")
		if slices.Contains(built, source) {
			continue
		}
		if _, err := os.Stat(source); err != nil {
			t.Errorf("compose.yaml mounts %s: %v", source, err)
		}
	}
}

func TestComposeListensOnLoopbackOnly(t *testing.T) {
	for name, s := range readCompose(t).Services {
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes %s to the network", name, p)
			}
		}
	}
}

// Both ways to run LocalStack are the same version, so that what CI tests
// without Docker is what people get with it.
func TestDockerAndHostModeAreOneVersion(t *testing.T) {
	script, err := os.ReadFile("localstack-host.sh")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^VERSION=(\S+)$`).FindSubmatch(script)
	if version == nil {
		t.Fatal("localstack-host.sh has no VERSION")
	}
	if image := readCompose(t).Services["localstack"].Image; image != "${LOCALSTACK_IMAGE:-localstack/localstack:"+string(version[1])+"}" {
		t.Errorf("compose.yaml runs %s, localstack-host.sh %s", image, version[1])
	}
}

func TestScriptsAreSoundAndExecutable(t *testing.T) {
	scripts, err := filepath.Glob("*.sh")
	if err != nil {
		t.Fatal(err)
	}
	hooks, err := filepath.Glob("ready.d/*.sh")
	if err != nil {
		t.Fatal(err)
	}
	if len(hooks) == 0 {
		t.Error("there is no hook that deploys")
	}
	for _, s := range append(scripts, hooks...) {
		if out, err := exec.Command("bash", "-n", s).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", s, err, out)
		}
		info, err := os.Stat(s)
		if err != nil {
			t.Fatal(err)
		}
		if sourced := s == "daemon.sh"; info.Mode()&0o111 != 0 == sourced {
			t.Errorf("%s has mode %s", s, info.Mode())
		}
	}
}
