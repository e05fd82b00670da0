package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
)

// TestAReaderOfEventsMissesNothingAfterARestore: its cursor is after events that were appended
// after the backup was made.
func TestAReaderOfEventsMissesNothingAfterARestore(tt *testing.T) {
	tt.Parallel()
	inbox := httptest.NewServer(http.NotFoundHandler())
	defer inbox.Close()
	folder, file := tt.TempDir(), filepath.Join(tt.TempDir(), "fedpost.tar")
	t, stop := running(tt, folder)
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	cursor := ""
	read := func(want int) {
		tt.Helper()
		for got := 0; got < want; {
			r, err := http.NewRequestWithContext(tt.Context(), http.MethodGet, t.url+"/v1/events?wait=1&after="+cursor, nil)
			if err != nil {
				tt.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				tt.Fatal(err)
			}
			var page struct {
				Events []struct{ Type string }
				Next   string
			}
			err = json.NewDecoder(res.Body).Decode(&page)
			if closed := res.Body.Close(); err != nil || closed != nil || res.StatusCode != http.StatusOK {
				tt.Fatal(res.Status, err, closed)
			}
			for _, e := range page.Events {
				if e.Type == "recipient.gone" {
					got++
				}
			}
			cursor = page.Next
		}
	}
	send := func(many int) {
		for range many {
			t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", inbox.URL + "/inbox"}, "queued")
		}
	}
	send(4)
	read(4)
	if _, err := alone(tt, "backup", file, "--data", folder); err != nil {
		tt.Fatal(err)
	}
	send(30)
	read(30)
	stop()
	moved := filepath.Join(tt.TempDir(), "moved")
	if _, err := alone(tt, "restore", file, "--data", moved); err != nil {
		tt.Fatal(err)
	}
	for range 2 { // a start that is not the first after the restore changes nothing
		t, stop = running(tt, moved)
		send(6)
		read(6)
		stop()
	}
}
