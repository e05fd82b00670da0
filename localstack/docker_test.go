package localstack

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine is a computer whose docker, curl and make do what a test says, and whose
// go notes what it is to test. What the scripts decide is tested without Docker.
type machine struct {
	*testing.T
	bin string
	env []string
}

func newMachine(t *testing.T, programs map[string]string) *machine {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{T: t, bin: t.TempDir()}
	for name, body := range map[string]string{
		"make":  "exit 0",
		"sleep": "exit 0", // no test waits
		"curl":  `echo '{"completed": true, "scripts": [{"stage": "READY", "state": "SUCCESSFUL"}]}'`,
		"docker": `case "$*" in
			*"cat /tmp/fedpost-outputs") printf 'LocalMethods=any\nLocalApiUrl=http://127.0.0.1:4566/restapis/abc/live/_user_request_\n' ;;
			"info "*) echo "Debian GNU/Linux 12 (bookworm)" ;;
			"network inspect bridge "*) echo 172.17.0.1 ;;
			esac`,
		"go": `[ "$1" = test ] || exec ` + goTool + ` "$@"
			echo "$FEDPOST_TEST_ENDPOINT $FEDPOST_DEPLOYED_API $FEDPOST_DEPLOYED_INBOX_HOST $FEDPOST_DEPLOYED_METHODS" >"` + m.bin + `/tested"
			printf '%s\n' "$@" >>"` + m.bin + `/tested"`,
	} {
		if other, ok := programs[name]; ok {
			body = other
		}
		if err := os.WriteFile(filepath.Join(m.bin, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "FEDPOST_") && name != "LOCALSTACK_PORT" {
			m.env = append(m.env, v)
		}
	}
	m.env = append(m.env, "LOCALSTACK_WAIT=3", "PATH="+m.bin+":"+os.Getenv("PATH"))
	return m
}

// run returns what a script prints and whether it did well.
func (m *machine) run(script string, args ...string) (string, bool) {
	cmd := exec.Command(script, args...)
	cmd.Env = m.env
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// tested is what go test was given: the variables, then the arguments.
func (m *machine) tested() []string {
	text, err := os.ReadFile(filepath.Join(m.bin, "tested"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// TestWithoutLocalStackTheScriptsFail, and no test runs: without an endpoint each
// would skip itself, and all would seem well.
func TestWithoutLocalStackTheScriptsFail(t *testing.T) {
	for name, tt := range map[string]struct {
		programs map[string]string
		says     string
	}{
		"no compose":   {map[string]string{"docker": "exit 1"}, "docker compose is needed"},
		"no start":     {map[string]string{"docker": `case "$*" in *" up "*) echo "no such image"; exit 1 ;; esac`}, "no such image"},
		"no build":     {map[string]string{"make": "echo 'it does not compile'; exit 2"}, "it does not compile"},
		"no answer":    {map[string]string{"curl": "exit 7"}, "LocalStack does not answer"},
		"not deployed": {map[string]string{"curl": `echo '{"completed": true, "scripts": [{"state": "ERROR"}]}'`}, "the stack was not deployed"},
		"no API":       {map[string]string{"docker": "exit 0"}, "did not say where the API is"},
		"no address": {map[string]string{"docker": `case "$*" in
			*outputs) echo LocalApiUrl=http://127.0.0.1:4566/x ;;
			"network "*) echo "no such network" >&2; exit 1 ;;
			esac`}, "no such network"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, script := range []string{"./docker-up.sh", "./docker-test.sh"} {
				m := newMachine(t, tt.programs)
				out, ok := m.run(script)
				if ok || !strings.Contains(out, tt.says) {
					t.Errorf("%s: ended well: %t, want an end that says %q:\n%s", script, ok, tt.says, out)
				}
				if got := m.tested(); got != nil {
					t.Errorf("%s ran go %q", script, got)
				}
			}
		})
	}
}

func TestATestThatFailsFailsTheScript(t *testing.T) {
	m := newMachine(t, map[string]string{"go": `[ "$1" != test ] || { echo FAIL; exit 1; }
		echo fedpost/a fedpost/internal/testkit/engines/awstest`})
	if out, ok := m.run("./docker-test.sh"); ok || !strings.Contains(out, "FAIL") {
		t.Errorf("ended well: %t, printed\n%s", ok, out)
	}
}

func TestAllSuitesOfTheAWSEngineRunOnLocalStack(t *testing.T) {
	m := newMachine(t, nil)
	if out, ok := m.run("./docker-test.sh", "-run", "X"); !ok {
		t.Fatalf("it failed:\n%s", out)
	}
	got := m.tested()
	if want := "http://127.0.0.1:4566 http://127.0.0.1:4566/restapis/abc/live/_user_request_ 172.17.0.1 any"; len(got) == 0 || got[0] != want {
		t.Errorf("the environment is %q, want %q", got[:min(1, len(got))], want)
	}
	for _, want := range []string{
		"-run", "X", "fedpost/internal/testkit/e2e", "fedpost/internal/testkit/e2e/deployed", "fedpost/internal/testkit/engines",
		"fedpost/internal/engine/sqs", "fedpost/internal/engine/dynamodb", "fedpost/internal/store", "fedpost/functions",
		"fedpost/internal/enqueue", "fedpost/internal/deliver",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("go test is not given %s: %q", want, got)
		}
	}
}

// Docker Desktop's containers are in a virtual machine, where the bridge's gateway
// is not this machine.
func TestOnDockerDesktopContainersFindThisMachineByName(t *testing.T) {
	desktop := `case "$*" in
		*outputs) echo LocalApiUrl=http://127.0.0.1:4566/x ;;
		"info "*) echo "Docker Desktop" ;;
		"network "*) echo 172.17.0.1 ;;
		esac`
	m := newMachine(t, map[string]string{"docker": desktop})
	if out, ok := m.run("./docker-up.sh"); !ok || !strings.Contains(out, "FEDPOST_DEPLOYED_INBOX_HOST=host.docker.internal\n") {
		t.Errorf("ended well: %t, printed\n%s", ok, out)
	}
	m.env = append(m.env, "FEDPOST_DEPLOYED_INBOX_HOST=192.0.2.1", "LOCALSTACK_PORT=4999")
	out, ok := m.run("./docker-up.sh")
	if !ok || !strings.Contains(out, "FEDPOST_DEPLOYED_INBOX_HOST=192.0.2.1\n") || !strings.Contains(out, "FEDPOST_TEST_ENDPOINT=http://127.0.0.1:4999\n") {
		t.Errorf("ended well: %t, printed\n%s", ok, out)
	}
}
