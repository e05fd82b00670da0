//go:build unix

package activitypub_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/activitypub"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/testkit/fediverse"
	"fedpost/internal/testkit/long"
)

// busyWork is the input of the child of TestABusyMachineIsNotTheHostsFault.
type busyWork struct {
	Root []byte
	URLs []string
}

// busyResult is its output.
type busyResult struct {
	Delivered, Faults, Others int
	First                     string
	Took                      time.Duration
}

// TestABusyMachineIsNotTheHostsFault delivers to 500 hosts at once, over new
// connections, by a process that has 0.07 of a processor: the handshakes and
// signatures alone take 16 s then. (A Lambda of 256 MB has 0.15 of a slower one.)
// That process is this test again, stopped most of the time.
func TestABusyMachineIsNotTheHostsFault(t *testing.T) {
	if file := os.Getenv("FEDPOST_TEST_BUSY"); file != "" {
		deliverAll(t, file)
		return
	}
	long.Only(t, "500 handshakes by a process that has 0.07 of a processor")
	const hosts = 500
	servers := fediverse.Encrypted(t, hosts, fediverse.Accept)
	work := busyWork{Root: servers.Root, URLs: servers.URLs}
	data, err := json.Marshal(work)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "work.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestABusyMachineIsNotTheHostsFault$")
	child.Env = append(os.Environ(), "FEDPOST_TEST_BUSY="+file)
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil { // it is ready
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var throttle sync.WaitGroup
	throttle.Go(func() {
		for {
			_ = child.Process.Signal(syscall.SIGSTOP)
			time.Sleep(93 * time.Millisecond)
			_ = child.Process.Signal(syscall.SIGCONT)
			select {
			case <-stop:
				return
			case <-time.After(7 * time.Millisecond):
			}
		}
	})
	_, _ = io.WriteString(in, "go\n")
	line, err := lines.ReadBytes('\n')
	close(stop)
	throttle.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
	var r busyResult
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	cpu := child.ProcessState.UserTime() + child.ProcessState.SystemTime()
	t.Logf("%d of %d delivered in %v with %v of a processor's time in all, %d faults of hosts, %d others: %s",
		r.Delivered, hosts, r.Took, cpu, r.Faults, r.Others, r.First)
	if r.Delivered != hosts || r.Faults != 0 {
		t.Errorf("%d of %d delivered, %d faults of hosts", r.Delivered, hosts, r.Faults)
	}
}

// deliverAll is the child: it sends one activity to each host, all at once.
func deliverAll(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var work busyWork
	if err := json.Unmarshal(data, &work); err != nil {
		t.Fatal(err)
	}
	root, err := x509.ParseCertificate(work.Root)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	client, err := outbound.New(outbound.Config{UserAgent: "fedpost/test", AllowPrivate: true, RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	p := sender{&activitypub.Protocol{Keys: fediverse.NewKeys(), Client: client, Forms: newForms(), Now: time.Now, Date: time.Now}}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var mu sync.Mutex
	var r busyResult
	var all sync.WaitGroup
	for _, url := range work.URLs {
		all.Go(func() {
			var o outcome.Outcome
			// Like the engine, try again what was not the host's fault.
			for o.Class == "" || o.Try == outcome.Untried && time.Since(start) < 2*time.Minute {
				ctx, cancel := context.WithTimeoutCause(t.Context(), client.Timeout()+outbound.MaxWait, outcome.ErrTimeout)
				o = p.Attempt(ctx, note(`{"id":"x"}`), to(url+"/inbox"))
				cancel()
				if o.Try == outcome.Untried {
					mu.Lock()
					r.Others++
					mu.Unlock()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case o.Class == outcome.Delivered:
				r.Delivered++
			case o.HostFault():
				r.Faults++
				r.First = o.Err
			default:
				r.First = o.Err
			}
		})
	}
	all.Wait()
	r.Took = time.Since(start)
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(line))
}
