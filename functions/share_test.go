package functions

import (
	"encoding/pem"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/store"
	"fedpost/internal/testkit/cost"
	"fedpost/internal/testkit/fediverse"
	"fedpost/internal/testkit/long"
)

var measure = flag.Bool("measure", false, "measure a batch at several sizes of the deliver function: make measure")

// batch is one invocation with ten full messages: 500 inboxes.
const batch = 500

// run is what a batch took.
type run struct {
	took, cpu time.Duration
	memory    int64
	again     int // invocations for what did not get its turn, or no answer, in time
}

// encrypted makes a site whose deliver function has a share of a processor, and 500 hosts
// that take new TLS connections with chains like those of Let's Encrypt.
func encrypted(t *testing.T, memory int, share float64) (*site, *fediverse.Hosts) {
	t.Helper()
	hosts := fediverse.Encrypted(t, batch, fediverse.Accept)
	file := filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hosts.Root}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, "SSL_CERT_FILE", file)
	// Most of the fediverse signs with RSA 2048.
	if _, err := s.client.GenerateKey(t.Context(), rsaKeyID, "rsa"); err != nil {
		t.Fatal(err)
	}
	s.deliver.Memory, s.deliver.Share = memory, share
	return s, hosts
}

const rsaKeyID = "https://social.example/users/frida#rsa"

// batches sends an activity to 500 hosts, and works until it is delivered.
func (s *site) batches(hosts *fediverse.Hosts) run {
	s.Helper()
	var urls []string
	for _, u := range hosts.URLs {
		urls = append(urls, u+"/inbox")
	}
	sub := submission(urls...)
	sub.KeyID = rsaKeyID
	a, err := s.client.Send(s.Context(), sub)
	if err != nil {
		s.Fatal(err)
	}
	s.work() // one message becomes ten
	before, err := s.function("DeliverFunction").CPU()
	if err != nil {
		s.Fatal(err)
	}
	began := time.Now()
	s.work()
	r := run{took: time.Since(began)}
	after, err := s.function("DeliverFunction").CPU()
	if err != nil {
		s.Fatal(err)
	}
	if r.memory, err = s.function("DeliverFunction").PeakMemory(); err != nil {
		s.Fatal(err)
	}
	r.cpu = after - before
	for ; ; r.again++ {
		status, err := s.client.Activity(s.Context(), a.ID)
		if err != nil {
			s.Fatal(err)
		}
		if status.Counts[string(activity.Delivered)] == len(urls) {
			return r
		}
		if r.again == 20 {
			s.Fatalf("not all are delivered: %v", status.Counts)
		}
		// Deliveries without a permit in time come back.
		s.aws.advance(time.Minute)
		s.work()
	}
}

// TestAColdBatchFailsNoHealthyServer: 500 new TLS connections by a deliver function with 0.15 of a
// processor, as a Lambda function of 256 MB has. All are delivered, and no server counts as down.
func TestAColdBatchFailsNoHealthyServer(t *testing.T) {
	long.Only(t, "500 handshakes with 0.15 of a processor")
	t.Parallel()
	s, hosts := encrypted(t, 256, 0.15)
	var r run
	s.period(func() { r = s.batches(hosts) })
	t.Logf("%d inboxes in %v with %v of a processor's time and %d MiB", batch, r.took, r.cpu, r.memory>>20)
	servers, _, err := store.New(s.aws.engine.Table(), time.Now).ListServers(t.Context(), "", 2*batch)
	if err != nil {
		t.Fatal(err)
	}
	for _, down := range servers {
		if down.Phase != circuit.Healthy {
			t.Errorf("%s is %s: %s", down.Key, down.Phase, down.Why)
		}
	}
	counted := func(name string) (n float64) {
		for _, c := range s.recorded["AWS::StackName "+name] {
			n += c
		}
		return n
	}
	if hosts := counted("Retried") - counted("CameBack"); hosts > 0 {
		t.Errorf("%.0f attempts failed through the hosts' fault", hosts)
	}
	if r.cpu < 200*time.Millisecond {
		t.Errorf("the function used %v of a processor: nothing was measured", r.cpu)
	}
}

// TestABatchOfHostsThatRefuseTakesLittleMemory: full batches for 500 new hosts, at the function's
// default size of 512 MB, until all circuits are open.
func TestABatchOfHostsThatRefuseTakesLittleMemory(t *testing.T) {
	long.Only(t, "2,500 attempts with 0.29 of a processor")
	t.Parallel()
	s := newSite(t)
	s.deliver.Memory, s.deliver.Share = 512, 512./cost.MemoryPerCore
	urls := make([]string, batch)
	for i := range urls {
		urls[i] = fmt.Sprintf("http://127.80.%d.%d:1/inbox", i>>8, i&255) // nothing listens there
	}
	for range 5 {
		s.submit(urls...)
	}
	for range 6 { // expansions, five tries of each
		s.work()
		s.aws.advance(10 * time.Minute)
	}
	peak, err := s.function("DeliverFunction").PeakMemory()
	if err != nil {
		t.Fatal(err)
	}
	servers, _, err := store.New(s.aws.engine.Table(), time.Now).ListServers(t.Context(), "", 2*batch)
	if err != nil {
		t.Fatal(err)
	}
	down := 0
	for _, one := range servers {
		if one.Phase != circuit.Healthy {
			down++
		}
	}
	t.Logf("%d MiB for 5 × %d attempts; %d hosts are down", peak>>20, batch, down)
	if peak > 128<<20 || down < batch {
		t.Errorf("%d MiB, at most 128, and %d hosts of %d are known to be down", peak>>20, down, batch)
	}
}

// TestMeasureSizes prints what a batch takes and costs at several sizes of the deliver
// function, for docs/costs.md: run it on a machine that does nothing else.
func TestMeasureSizes(t *testing.T) {
	if !*measure {
		t.Skip("make measure")
	}
	accepts(t)
	for _, memory := range []int{128, 256, 512, 1024, 1769} {
		share := min(1, float64(memory)/cost.MemoryPerCore)
		s, hosts := encrypted(t, memory, share)
		for _, kind := range []string{"new", "kept"} {
			r := s.batches(hosts)
			bound := time.Duration(float64(r.cpu) / share)
			t.Logf("%4d MB, %.2f of a core, %-4s connections: %6.2f s (%5.2f s of its share), %5.2f s of a core, %2d MiB: $%.3f per million",
				memory, share, kind, r.took.Seconds(), bound.Seconds(), r.cpu.Seconds(), r.memory>>20, cost.Lambda(memory, bound)/batch*1e6)
		}
		s.stop()
	}
}

// accepts prints what the enqueue function takes for an activity, by its recipients.
func accepts(t *testing.T) {
	s := newSite(t)
	for _, recipients := range []int{1, 50, 500, 5000} {
		const calls = 40
		urls := make([]string, recipients)
		for i := range urls {
			urls[i] = fmt.Sprintf("https://server%d.example/users/somebody/inbox", i)
		}
		s.submit(urls...)
		before, err := s.function("EnqueueFunction").CPU()
		if err != nil {
			t.Fatal(err)
		}
		for range calls {
			s.submit(urls...)
		}
		after, err := s.function("EnqueueFunction").CPU()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("accepting an activity to %4d: %6.2f ms of a core", recipients, (after-before).Seconds()*1000/calls)
	}
}
