package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/property"
)

// crashEnv names the file on which the test binary runs as a writer.
const crashEnv = "FEDPOST_CRASH_TEST_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		if err := writeForever(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// writeForever sends and puts from several goroutines, and prints each name whose
// writes were acknowledged.
func writeForever(path string) error {
	ctx := context.Background()
	e, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	errs := make(chan error)
	var mu sync.Mutex
	for worker := range 4 {
		go func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("%d-%d-%d", os.Getpid(), worker, i)
				if err := writeOnce(ctx, e, name); err != nil {
					errs <- err
					return
				}
				mu.Lock()
				fmt.Println(name) // unbuffered: it is out before the next write
				mu.Unlock()
			}
		}()
	}
	return <-errs
}

// writeOnce writes name three times: in a standard message, in a FIFO message,
// and in two items of one transaction.
func writeOnce(ctx context.Context, e *Engine, name string) error {
	if err := e.Queue(queue.Normal).Send(ctx, queue.Message{Body: name}); err != nil {
		return err
	}
	if err := e.Queue(queue.Ordered).Send(ctx, queue.Message{Body: name, OrderingKey: name, DeduplicationKey: "k"}); err != nil {
		return err
	}
	a, b := crashItem("a", name), crashItem("b", name)
	return e.Table().Transact(ctx, []table.Op{{Put: &a, Cond: table.Cond{Absent: true}}, {Put: &b}})
}

func crashItem(pk, name string) table.Item {
	return table.Item{Key: table.Key{PK: pk, SK: name}, Data: []byte(strings.Repeat(name, 20))}
}

// TestWhatWasAcknowledgedSurvivesKill9 kills a writer at random moments, again
// and again on one file, and then looks for every write that was acknowledged.
func TestWhatWasAcknowledgedSurvivesKill9(t *testing.T) {
	path := file(t)
	var acknowledged []string
	rounds, draw := long.Pick(2, 6), property.Rand(t)
	for range rounds {
		acknowledged = append(acknowledged, killWriter(t, path, 50+draw.IntN(200))...)
	}
	if len(acknowledged) == 0 {
		t.Fatal("nothing was written")
	}
	e := openAt(t, path, Options{})
	standard, fifo := drain(t, e, queue.Normal), drain(t, e, queue.Ordered)
	items := make(map[table.Key]bool)
	for _, pk := range []string{"a", "b"} {
		got, _, err := e.Table().Query(t.Context(), table.Range{PK: pk})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range got {
			if want := crashItem(pk, it.SK).Data; string(it.Data) != string(want) {
				t.Errorf("item %v holds %q", it.Key, it.Data)
			}
			items[it.Key] = true
		}
	}
	for _, name := range acknowledged {
		if standard[name] != 1 || fifo[name] != 1 || !items[crashItem("a", name).Key] || !items[crashItem("b", name).Key] {
			t.Errorf("%s was acknowledged, but is there %d and %d times, items %t and %t", name, standard[name], fifo[name],
				items[crashItem("a", name).Key], items[crashItem("b", name).Key])
		}
	}
	for k := range items {
		if !items[table.Key{PK: "a", SK: k.SK}] || !items[table.Key{PK: "b", SK: k.SK}] {
			t.Errorf("half of the transaction on %s is there", k.SK)
		}
	}
	var ok string
	if err := e.write(t.Context(), func(s *session) error {
		_, err := s.one(`PRAGMA integrity_check`, nil, &ok)
		return err
	}); err != nil || ok != "ok" {
		t.Errorf("integrity check: %s, error %v", ok, err)
	}
	t.Logf("%d acknowledged writes in %d rounds", len(acknowledged), rounds)
}

// killWriter runs a writer until it has acknowledged n names, kills it in the
// middle of its work, and returns all names that it acknowledged.
func killWriter(t *testing.T, path string, n int) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+path)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer deadline.Stop()
	var names []string
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			break // a line that was cut off was acknowledged too, but not to us
		}
		if err != nil {
			t.Fatal(err)
		}
		if names = append(names, strings.TrimSpace(line)); len(names) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || len(names) < n {
		t.Fatalf("the writer ended by itself after %d names: %v\n%s", len(names), err, stderr.String())
	}
	return names
}

// drain receives everything and counts the bodies.
func drain(t *testing.T, e *Engine, n queue.Name) map[string]int {
	t.Helper()
	seen := make(map[string]int)
	for {
		got, err := e.Queue(n).Receive(t.Context(), queue.ReceiveOptions{Max: queue.MaxBatch, Visibility: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			return seen
		}
		for _, r := range got {
			seen[r.Body]++
		}
	}
}

func TestASecondProcessIsRefused(t *testing.T) {
	path := file(t)
	e := openAt(t, path, Options{})
	// Trying it here first must not loosen the lock for others.
	if _, err := Open(t.Context(), path, Options{}); err == nil {
		t.Error("the same process opened it twice")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+path)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the data folder is in use") || !strings.Contains(string(out), filepath.Base(path)) {
		t.Errorf("the second process says %q, error %v", out, err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, path, Options{})
}

// TestASecondProcessIsRefusedThroughASymlink: the lock is beside the file that
// the link leads to.
func TestASecondProcessIsRefusedThroughASymlink(t *testing.T) {
	for about, c := range map[string]struct{ first, second string }{
		"a link to the file":            {"data/fedpost.db", "other/file.db"},
		"the file behind a link":        {"other/file.db", "data/fedpost.db"},
		"a relative link":               {"data/fedpost.db", "other/relative.db"},
		"a link to a link":              {"other/twice.db", "other/relative.db"},
		"a directory that is a link":    {"data/fedpost.db", "linked/fedpost.db"},
		"a link in a linked directory":  {"linked/inside.db", "data/fedpost.db"},
		"a path with dots":              {"data/fedpost.db", "other/../data/fedpost.db"},
		"two links, and no file before": {"other/twice.db", "linked/inside.db"},
	} {
		root := t.TempDir()
		at := func(path string) string { return filepath.Join(root, path) }
		for _, dir := range []string{"data", "other"} {
			if err := os.Mkdir(at(dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, link := range [][2]string{
			{at("data/fedpost.db"), "other/file.db"},
			{"../data/fedpost.db", "other/relative.db"},
			{"relative.db", "other/twice.db"},
			{at("data"), "linked"},
			{"fedpost.db", "data/inside.db"},
		} {
			if err := os.Symlink(link[0], at(link[1])); err != nil {
				t.Fatal(err)
			}
		}
		e, err := Open(t.Context(), at(c.first), Options{})
		if err != nil {
			t.Fatalf("%s: %v", about, err)
		}
		second, err := Open(t.Context(), at(c.second), Options{})
		if err == nil {
			err = second.Close()
			t.Errorf("%s: %s and %s are open at once (%v)", about, c.first, c.second, err)
		} else if !strings.Contains(err.Error(), "the data folder is in use") {
			t.Errorf("%s: %v", about, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
