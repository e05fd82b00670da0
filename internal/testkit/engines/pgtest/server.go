package pgtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// Server is a PostgreSQL server of a test's own, which the test may stop and start.
type Server struct {
	testing.TB
	// URL is a database of the server.
	URL string

	bin, dir string
	address  *net.TCPAddr
}

// servers counts the addresses that were given out.
var servers atomic.Uint32

// freeAddress is where a server that a test starts may listen. The address is this process's
// own: at 127.0.0.1 another program could take the port before the server does.
func freeAddress(t testing.TB) *net.TCPAddr {
	t.Helper()
	pid := os.Getpid()
	own := net.IPv4(127, byte(128+pid>>16&63), byte(pid>>8), byte(pid))
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: own, Port: 6000 + int(servers.Add(1))})
	if err != nil { // macOS has 127.0.0.1 only
		l, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().(*net.TCPAddr)
}

// NewServer starts a server of the installed PostgreSQL, or of FEDPOST_POSTGRES_BIN. The test is
// skipped without a database for tests, as URL says.
func NewServer(t testing.TB) *Server {
	t.Helper()
	URL(t)
	bin := os.Getenv("FEDPOST_POSTGRES_BIN")
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_ctl"); bin == "" && len(found) > 0 { // the pattern is well formed
		bin = filepath.Dir(found[len(found)-1])
	}
	if path, err := exec.LookPath("pg_ctl"); bin == "" && err == nil {
		bin = filepath.Dir(path)
	}
	if bin == "" {
		t.Skip("needs pg_ctl, to start a server")
	}
	dir, err := os.MkdirTemp("", "fedpost-pg-") // the server's user may not reach t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{TB: t, bin: bin, dir: dir, address: freeAddress(t)}
	s.URL = fmt.Sprintf("postgres://fedpost@%s/postgres", s.address)
	if os.Getuid() == 0 {
		if out, err := exec.Command("chown", "postgres", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	t.Cleanup(func() {
		s.Stop("immediate")
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s.do("initdb", "-D", dir+"/data", "-U", "fedpost", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	s.Start()
	return s
}

// do runs a program of PostgreSQL as a user who may run the server.
func (s *Server) do(program string, args ...string) {
	s.Helper()
	args = append([]string{filepath.Join(s.bin, program)}, args...)
	if os.Getuid() == 0 {
		args = append([]string{"runuser", "-u", "postgres", "--"}, args...)
	}
	// Its output is no pipe, which the server would inherit and keep open.
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = s.dir
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(s.dir + "/log") // it may not be there yet
		s.Fatalf("%s: %v\n%s", program, err, said)
	}
}

// Start starts the server, and waits until it answers.
func (s *Server) Start() {
	s.Helper()
	options := fmt.Sprintf("-p %d -c listen_addresses=%s -c unix_socket_directories=%s", s.address.Port, s.address.IP, s.dir)
	s.do("pg_ctl", "-D", s.dir+"/data", "-l", s.dir+"/log", "-w", "-t", "60", "-o", options, "start")
}

// Stop stops the server: "immediate" is a crash.
func (s *Server) Stop(mode string) {
	s.Helper()
	s.do("pg_ctl", "-D", s.dir+"/data", "-w", "-m", mode, "stop")
}
