//go:build linux

package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestUpWithFewFilesServesOn: 64 files are fewer than the connections that clients may open. Those
// that sent half a request made every other client wait.
func TestUpWithFewFilesServesOn(t *testing.T) {
	operator(t)
	program := exec.Command("sh", "-c", `ulimit -n 64 && exec "$0" up --listen 127.0.0.1:0 --data "$1"`, os.Args[0], t.TempDir())
	program.Env = append(os.Environ(), asProgram+"=1")
	var log strings.Builder
	program.Stderr = &log
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := program.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if _, err := io.Copy(io.Discard, out); err != nil {
			t.Error(err)
		}
		if err := program.Wait(); err != nil {
			t.Errorf("%v: %s", err, log.String())
		}
		if strings.Contains(log.String(), "too many open files") {
			t.Errorf("it ran out of files:\n%.1000s", log.String())
		}
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, ok := strings.Cut(strings.TrimSpace(line), "http://")
	if err != nil || !ok {
		t.Fatalf("the first line is %q, error %v; want the address", line, err)
	}
	for range 100 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// The server may have closed it to let others in.
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: loc")
	}
	for range 3 {
		res, err := http.Get("http://" + address + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("the answer is %d, error %v; want 200", res.StatusCode, err)
		}
	}
}
