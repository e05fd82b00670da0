package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestStatusWaitsForTheEnd: a script learns from the exit status whether everybody has got
// the activity.
func TestStatusWaitsForTheEnd(tt *testing.T) {
	tt.Parallel()
	t := onServer(tt)
	answer := make(chan bool)
	inbox := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-answer
		}
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
		}
	}))
	defer inbox.Close()
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	send := func(to ...string) string {
		line := []string{"send", t.file("note.json", note), "--key", keyID}
		for _, path := range to {
			line = append(line, "--to", inbox.URL+path)
		}
		id, _, _ := strings.Cut(t.run(line), " ")
		return id
	}
	slow := send("/slow")
	go func() { answer <- true }()
	t.run([]string{"status", slow, "--wait"}, slow+": done (1 delivered)")

	mixed := send("/good", "/gone")
	out, err := t.try("status", mixed, "--wait", "--state", "failed")
	if err == nil || exitStatus(err) != failedExit || !strings.Contains(err.Error(), "1 recipient did not get "+mixed) {
		t.Errorf("exit status %d, %v", exitStatus(err), err)
	}
	if !strings.Contains(out, "/gone") || strings.Contains(out, "/good") {
		t.Errorf("lists\n%s", out)
	}
	if _, err := t.try("status", "nonsense", "--wait"); err == nil || exitStatus(err) != 1 {
		t.Errorf("an unknown activity: exit status %d, %v", exitStatus(err), err)
	}
	t.run([]string{"status", mixed, "--host", "b.example"}, mixed+": done (1 delivered, 1 failed)")
}

func TestTheVersionIsOneLine(tt *testing.T) {
	var out strings.Builder
	if err := (versionCommand{}).Run(&out); err != nil || strings.Count(out.String(), "\n") != 1 || !strings.HasPrefix(out.String(), "fedpost "+release()+" (") || release() == "" || strings.Contains(out.String(), "((") {
		tt.Errorf("version prints %q, error %v; want one line that begins with fedpost %s", out.String(), err, release())
	}
}
