package functions

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/internal/app/topology"
	"fedpost/internal/testkit/binary"
	"fedpost/internal/testkit/lambda"
)

// binaries is where TestMain has built the functions, as they are deployed but
// for this machine's architecture.
var binaries string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "fedpost-functions-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		for _, f := range topology.Functions {
			if err := build(filepath.Join(dir, f.Name), "./"+f.Name); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		binaries = dir
		// The tests wait for functions that try again more than they compute.
		flag.Parse()
		if err := flag.Set("test.parallel", "16"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		// Tests wait for the SDK between its tries more than they compute.
		if err := flag.Set("test.parallel", "4"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// tags is part of the Makefile's command; TestTheMakefileBuildsThis compares the two.
const tags = "lambda.norpc"

func build(out, pkg string) error {
	return binary.Build(out, pkg, append(os.Environ(), "CGO_ENABLED=0"), "-tags", tags, "-trimpath", "-ldflags=-s -w")
}

func TestTheMakefileBuildsThis(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"CGO_ENABLED=0", "-tags " + tags, "-trimpath", `-ldflags="-s -w"`} {
		if !bytes.Contains(makefile, []byte(part)) {
			t.Errorf("the Makefile does not build with %s", part)
		}
	}
}

// TestBinariesAreSmall: a stripped binary, which is loaded at each cold start, has at most 15 MiB.
// From Go 1.27 on encoding/json brings its second version, and net/http links HTTP/2 in another
// way: half a MiB more.
func TestBinariesAreSmall(t *testing.T) {
	sizeLimit := int64(15 << 20)
	if version.Compare(runtime.Version(), "go1.27") >= 0 {
		sizeLimit += 1 << 19
	}
	for _, f := range topology.Functions {
		info, err := os.Stat(filepath.Join(binaries, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%-12s %5.1f MiB", f.Name, float64(info.Size())/(1<<20))
		if info.Size() > sizeLimit {
			t.Errorf("%s has %d bytes, at most %d", f.Name, info.Size(), sizeLimit)
		}
	}
}

func TestBinariesLinkNothingTheyDoNotUse(t *testing.T) {
	unwanted := []string{
		"modernc.org/", "fedpost/internal/engine/sqlite", // the other engines
		"github.com/jackc/", "fedpost/internal/engine/postgres",
		"aws-sdk-go-v2/config", "service/sso", "service/sts", "feature/ec2/imds", // credentials that Lambda has no use for
		"net/rpc", "testing", "cmd/fedpost/demo", "internal/app/local",
		"google.golang.org/grpc",                    // OTLP goes over HTTP
		"prometheus/client_golang", "html/template", // the metrics and the page of `fedpost up`
	}
	for _, f := range topology.Functions {
		cmd := exec.Command("go", "list", "-deps", "-tags", tags, "./"+f.Name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		deps, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for dep := range strings.FieldsSeq(string(deps)) {
			for _, u := range unwanted {
				if dep == u || strings.Contains(dep, "/"+u) || strings.HasPrefix(dep, u) && strings.HasSuffix(u, "/") {
					t.Errorf("%s links %s", f.Name, dep)
				}
			}
		}
	}
}

func TestMainsAreWiringOnly(t *testing.T) {
	for _, f := range topology.Functions {
		text, err := os.ReadFile(filepath.Join(f.Name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n >= 40 {
			t.Errorf("%s/main.go has %d lines", f.Name, n)
		}
	}
}

// initLimit is the aim for a start on this machine, and memoryLimit the peak of
// one, in bytes.
const (
	initLimit   = 100 * time.Millisecond
	memoryLimit = 64 << 20
)

func TestStartsAreQuickAndSmall(t *testing.T) {
	for _, f := range topology.Functions {
		// The best of some starts: this machine may be busy with something else.
		best := time.Hour
		var memory int64
		for range 7 {
			fn := start(t, f, deployed())
			// A started function refuses an invalid event at once.
			_, err := fn.Invoke(t.Context(), []byte(`"no event"`))
			if _, own := errors.AsType[*lambda.Error](err); !own {
				t.Fatalf("%s: %v", f.Name, err)
			}
			best = min(best, fn.Starts()[0].Init)
			if memory, err = fn.PeakMemory(); err != nil {
				t.Fatal(err)
			}
			if err := fn.Close(); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%-12s init %5.1f ms, peak memory %4.1f MiB", f.Name, float64(best.Microseconds())/1000, float64(memory)/(1<<20))
		if best > initLimit || memory > memoryLimit {
			t.Errorf("%s: init %s, peak memory %d bytes; at most %s and %d", f.Name, best, memory, initLimit, memoryLimit)
		}
	}
}

// start runs a built function.
func start(t *testing.T, f topology.Function, env map[string]string) *lambda.Function {
	t.Helper()
	fn := lambda.New(lambda.Options{
		Binary: filepath.Join(binaries, f.Name), Name: "fedpost-" + f.Name, Env: env,
		Timeout: f.Timeout, Memory: f.Memory, Logs: newTestWriter(t),
	})
	t.Cleanup(func() {
		if err := fn.Close(); err != nil {
			t.Error(err)
		}
	})
	return fn
}

// testWriter shows what a function prints with the test that runs it, if that
// fails.
type testWriter struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func newTestWriter(t *testing.T) *testWriter {
	w := &testWriter{}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for line := range strings.Lines(w.text.String()) {
			if key := repeated(line); key != "" {
				t.Errorf("a line of the log has two fields %q, of which CloudWatch keeps one: %s", key, line)
			}
		}
		if t.Failed() {
			t.Logf("the functions printed:\n%s", w.text.String())
		}
	})
	return w
}

func (w *testWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

// repeated returns a key that a line of JSON has twice, or nothing.
func repeated(line string) string {
	d := json.NewDecoder(strings.NewReader(line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return "" // not one of ours
	}
	seen := map[any]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return ""
		}
		if seen[key] {
			return fmt.Sprint(key)
		}
		seen[key] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return ""
		}
	}
	return ""
}
