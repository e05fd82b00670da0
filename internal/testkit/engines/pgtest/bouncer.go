package pgtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Bouncer starts a PgBouncer in transaction mode before the server and returns the database as
// it is reached through it. A machine without PgBouncer skips the test; `.ci/run postgres`
// installs Debian's 1.18, which keeps no prepared statements. Requests to cancel a query do not
// reach PgBouncer: those before 1.21 exit at some of them (its issues 801, 822 and 904).
func Bouncer(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(URL(t))
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("needs PgBouncer: run .ci/run postgres")
	}
	address := freeAddress(t)
	file := filepath.Join(t.TempDir(), "pgbouncer.ini")
	settings := fmt.Sprintf("[databases]\n* = host=%s port=%s user=%s\n[pgbouncer]\nlisten_addr = %s\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\nmax_client_conn = 200\n",
		u.Hostname(), u.Port(), u.User.Username(), address.IP, address.Port)
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-q"}
	if os.Getuid() == 0 {
		args = append(args, "-u", "nobody") // it refuses to run as root
	}
	cmd := exec.Command(program, append(args, file)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	for tries := 0; ; tries++ {
		c, err := net.Dial("tcp", address.String())
		if err == nil {
			_ = c.Close()
			break
		}
		if tries == 200 {
			t.Fatalf("PgBouncer does not listen: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	u.Host = address.String()
	q := u.Query()
	q.Set("default_query_exec_mode", "exec")
	u.RawQuery = q.Encode()
	p := &Proxy{withoutCancels: true, decide: func([]byte) Fault { return Pass }}
	p.start(t, u.String())
	return p.URL
}
