package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/app/local"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/engines/pgtest"
)

// sharing starts processes on one database, the first of which makes a key.
func sharing(t *testing.T, processes int) (all []terminal) {
	t.Helper()
	operator(t, "DATABASE_URL", pgtest.URL(t), "DATABASE_SCHEMA", pgtest.Schema(t))
	folder := t.TempDir()
	for range processes {
		p, stop := serving(t, folder)
		t.Cleanup(stop)
		all = append(all, p)
	}
	all[0].run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	return all
}

// attempts is how many attempts a process has made.
func (t terminal) attempts() (n float64) {
	t.Helper()
	for sample, value := range t.scrape() {
		if strings.HasPrefix(sample, "fedpost_attempts_total{") {
			n += value
		}
	}
	return n
}

// TestALimitOfAHostHoldsAcrossProcessesOnPostgreSQL: of 60 deliveries a minute after a burst of
// 3, the n-th comes n - 3 seconds after the first was accepted at the earliest, whichever
// processes send them.
func TestALimitOfAHostHoldsAcrossProcessesOnPostgreSQL(t *testing.T) {
	const burst, least, each = 3, 8, 12
	processes := sharing(t, 2)
	var mu sync.Mutex
	var came []time.Time
	inbox := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		came = append(came, time.Now())
	}))
	t.Cleanup(inbox.Close)
	processes[1].run([]string{"servers", "limit", strings.TrimPrefix(inbox.URL, "http://"), "60", "--burst", fmt.Sprint(burst)})
	began := time.Now()
	for n := range each * len(processes) {
		p := processes[n%len(processes)]
		p.run([]string{"send", p.file("like.json", fmt.Sprintf(`{"id":"https://social.example/users/frida/%d","type":"Like","actor":"https://social.example/users/frida"}`, n)), "--key", keyID, "--to", inbox.URL + "/inbox"})
	}
	e2e.Await(t, 2*time.Minute, fmt.Sprintf("%d deliveries, some by each process", least), func() (bool, string) {
		mu.Lock()
		n := len(came)
		mu.Unlock()
		one, other := processes[0].attempts(), processes[1].attempts()
		return n >= least && one > 0 && other > 0, fmt.Sprintf("%d came, of %v and %v attempts", n, one, other)
	})
	mu.Lock()
	defer mu.Unlock()
	for i, at := range came {
		if earliest := time.Duration(i+1-burst) * time.Second; at.Sub(began) < earliest {
			t.Fatalf("delivery %d of %d came after %s, want %s at the earliest", i+1, len(came), at.Sub(began), earliest)
		}
	}
}

// TestCountsOfProcessesAddUpOnPostgreSQL: statistics and page are of all processes, whichever is
// asked; the counters in the metrics are each process's own and add up to the statistics; the
// gauges are of all processes in each.
func TestCountsOfProcessesAddUpOnPostgreSQL(t *testing.T) {
	t.Setenv("RETRY_TRIES", "1")
	t.Setenv("RETRY_PARK", "false")
	processes := sharing(t, 2)
	inboxes := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/gone":
			w.WriteHeader(http.StatusNotFound)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(inboxes.Close)
	processes[0].run([]string{"servers", "block", "bad.example"})
	var ids []string
	for n, p := range processes {
		for i := range n + 1 {
			send := []string{
				"send", p.file("note.json", note), "--key", keyID, "--deduplication-key", fmt.Sprint(n, i),
				"--to", inboxes.URL + "/ok", "--to", inboxes.URL + "/gone", "--to", inboxes.URL + "/broken", "--to", "https://bad.example/inbox",
			}
			id, _, _ := strings.Cut(p.run(send), " ")
			ids = append(ids, id)
			processes[1-n].run(send, "duplicate")
		}
	}
	for _, id := range ids {
		processes[0].until(id+": done (2 failed, 1 dead, 1 delivered)", "status", id)
	}
	want := map[string]int{"accepted": 12, "attempts": 9, "delivered": 3, "failed": 6, "dead": 3, "duplicates": 3}
	sum := map[string]float64{}
	for _, p := range processes {
		// The process that is asked writes its own counts first.
		p.run([]string{"stats"})
		for sample, value := range p.scrape() {
			sum[sample] += value
		}
		sum["attempts"] += p.attempts()
	}
	for n, p := range processes {
		var s client.Stats
		if err := json.Unmarshal([]byte(p.run([]string{"stats", "--json"})), &s); err != nil {
			t.Fatal(err)
		}
		b := p.browser()
		b.signIn(token)
		shown := b.see("/")
		for name, count := range want {
			if s.Counts[name] != count {
				t.Errorf("statistics of process %d count %d %s, want %d", n, s.Counts[name], name, count)
			}
		}
		for says, name := range map[string]string{"recipients accepted": "accepted", "requests made": "attempts", "delivered": "delivered", "refused for good": "failed", "given up": "dead", "calls that repeated a key": "duplicates"} {
			if line := fmt.Sprintf("<dt>%s</dt><dd>%d</dd>", says, want[name]); !strings.Contains(shown, line) {
				t.Errorf("the page of process %d does not show %s", n, line)
			}
		}
		if blocked := p.scrape()["fedpost_servers{phase=blocked}"]; blocked != 1 {
			t.Errorf("process %d has %v blocked servers, want 1", n, blocked)
		}
	}
	for sample, count := range map[string]int{
		"attempts": want["attempts"], "fedpost_deduplication_hits_total{}": want["duplicates"],
		"fedpost_recipients_total{state=accepted}": want["accepted"], "fedpost_recipients_total{state=delivered}": want["delivered"],
		"fedpost_recipients_total{state=failed}": want["failed"], "fedpost_recipients_total{state=dead}": want["dead"],
		"fedpost_attempt_duration_seconds{protocol=activitypub}": want["attempts"],
	} {
		if int(sum[sample]) != count {
			t.Errorf("%s of both processes is %v, want %d", sample, sum[sample], count)
		}
	}
}

// TestProcessesOnPostgreSQLShareASealingKeyOfTheirSettings: nobody copies a file.
func TestProcessesOnPostgreSQLShareASealingKeyOfTheirSettings(t *testing.T) {
	operator(t, "DATABASE_URL", pgtest.URL(t), "DATABASE_SCHEMA", pgtest.Schema(t), "SEALING_KEY", base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))+"\n")
	got := make(chan bool, 1)
	inbox := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got <- true }))
	t.Cleanup(inbox.Close)
	first, second := t.TempDir(), t.TempDir()
	p, stop := serving(t, first)
	p.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	stop()
	p, stop = serving(t, second)
	p.run([]string{"send", p.file("like.json", `{"id":"https://social.example/users/frida/1","type":"Like","actor":"https://social.example/users/frida"}`), "--key", keyID, "--to", inbox.URL + "/inbox"})
	<-got // the second process has opened the key that the first one sealed
	stop()
	for _, dir := range []string{first, second} {
		if _, err := os.Stat(filepath.Join(dir, "sealing.key")); !os.IsNotExist(err) {
			t.Errorf("there is a file of a sealing key in %s: %v", dir, err)
		}
	}
	t.Setenv("SEALING_KEY", base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 32))))
	_, err := start(t.Context(), second, local.ListenConfig{Listen: "127.0.0.1:0"}, true, nil, quiet)
	if err == nil || !strings.Contains(err.Error(), "not the sealing key") {
		t.Errorf("with another sealing key: %v", err)
	}
}
