package e2e

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fedpost/internal/testkit/binary"
)

// Process is `fedpost up` as a process of its own, which can be killed.
type Process struct {
	// URL is where it listens.
	URL string

	cmd  *exec.Cmd
	log  *lines
	said chan string // the first line
	done chan struct{}
}

// Build makes the command and returns its path.
func Build(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fedpost")
	if err := binary.Build(path, "fedpost/cmd/fedpost", nil); err != nil {
		t.Fatal(err)
	}
	return path
}

// Up starts the command as Launch does, and waits until it listens.
func Up(t testing.TB, command, data string, environ map[string]string) *Process {
	t.Helper()
	p := Launch(t, command, data, environ)
	select {
	case line := <-p.said:
		_, url, ok := strings.Cut(strings.TrimSpace(line), "fedpost listening on ")
		if !ok {
			p.Kill()
			t.Fatalf("it said %q and\n%s", line, p.Log())
		}
		p.URL = url
	case <-time.After(2 * time.Minute):
		p.Kill()
		t.Fatalf("it did not come up:\n%s", p.Log())
	}
	return p
}

// Launch starts the command on a data directory, or on the services that environ
// names, with Hasty settings. It is killed at the test's end at the latest.
func Launch(t testing.TB, command, data string, environ map[string]string) *Process {
	t.Helper()
	p := &Process{log: &lines{}, said: make(chan string, 1), done: make(chan struct{})}
	p.cmd = exec.Command(command, "up", "--listen", "127.0.0.1:0", "--data", data, "--allow-private")
	// The command must not see this process's variables that name servers.
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
	for _, settings := range []map[string]string{Hasty, environ} {
		for name, value := range settings {
			p.cmd.Env = append(p.cmd.Env, name+"="+value)
		}
	}
	p.cmd.Stderr = p.log
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	go func() {
		lines := bufio.NewReader(out)
		line, _ := lines.ReadString('\n')
		p.said <- line
		// Until the pipe ends: Wait must not be called before.
		_, _ = io.Copy(io.Discard, lines)
		close(p.done)
	}()
	return p
}

// PID is the id of the process, by which its memory can be looked up.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is the last that the process logged.
func (p *Process) Log() []byte { return p.log.last(40) }

// Kill ends the process as a power cut would: it gets no chance to tidy up.
func (p *Process) Kill() {
	if p.done == nil {
		return
	}
	// It fails if the process has ended by itself, which its users notice.
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
	_ = p.cmd.Wait() // says that it was killed
	p.done = nil
}
