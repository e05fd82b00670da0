package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/engines/pgtest"
	"fedpost/internal/testkit/long"
)

// TestACrashUnderLoadLosesNothingOnPostgreSQL stops the server as a crash does, while callers send,
// and starts it again; in nightly runs after ten minutes. Calls in between are refused with 503 and
// Retry-After, so callers repeat them; nothing ends dead, and everything continues by itself.
func TestACrashUnderLoadLosesNothingOnPostgreSQL(t *testing.T) {
	server := pgtest.NewServer(t)
	operator(t, "DATABASE_URL", server.URL)
	fedpost, stop := serving(t, t.TempDir())
	defer stop()
	fedpost.run([]string{"keys", "generate", keyID})
	inbox := newFollower(t)

	const callers = 4
	api, err := client.New(fedpost.url, client.Token(token), client.Patience(long.Pick(2*time.Minute, 15*time.Minute)))
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	var calling sync.WaitGroup
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	submission := func(n int) client.Submission {
		return client.Submission{
			Activity: json.RawMessage(fmt.Sprintf(`{"id":"https://social.example/users/frida/%d","type":"Like","actor":"https://social.example/users/frida"}`, n)),
			KeyID:    keyID, Recipients: client.To(inbox.url), DeduplicationKey: fmt.Sprint("call ", n),
		}
	}
	for range callers {
		calling.Go(func() {
			for ctx.Err() == nil {
				n := int(sent.Add(1))
				// The context of the test: a call that has begun has to be answered.
				if _, err := api.Send(t.Context(), submission(n)); err != nil {
					t.Errorf("call %d: %v", n, err)
					return
				}
			}
		})
	}
	arrived := func(n int) {
		t.Helper()
		e2e.Await(t, 3*time.Minute, fmt.Sprintf("%d activities to come", n), func() (bool, string) {
			got, _ := inbox.count()
			return got >= n, fmt.Sprint(got)
		})
	}
	for _, away := range []time.Duration{long.Pick(0, 10*time.Minute), 0} {
		before, _ := inbox.count()
		arrived(before + 20)
		server.Stop("immediate")
		for back := time.After(away); back != nil; {
			refusedAway(t, fedpost, inbox.url)
			select {
			case <-back:
				back = nil
			case <-time.After(10 * time.Second):
			}
		}
		server.Start()
		arrived(before + 40)
	}
	enough()
	calling.Wait()
	total := int(sent.Load())
	arrived(total)
	if out := fedpost.run([]string{"dead", "list", "--json"}); strings.TrimSpace(out) != "[]" {
		t.Errorf("dead letters after an outage of the database: %s", out)
	}
	_, twice := inbox.count()
	t.Logf("%d activities came; the one that came most often came %d times", total, twice)
	// What was sent and not recorded before the crash is sent again: once for each crash.
	if twice > 3 {
		t.Errorf("an activity came %d times, want at most once more for each of two crashes", twice)
	}
}

// refusedAway checks the answer to a call while the database cannot be reached.
func refusedAway(t *testing.T, fedpost terminal, inbox string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fedpost.url+"/v1/activities", strings.NewReader(asked(0, inbox)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("while the database is away a call is answered %d, Retry-After %q; want 503 with Retry-After", answer.StatusCode, answer.Header.Get("Retry-After"))
	}
}
