package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fedpost/client"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/engines/pgtest"
)

// follower counts what its inbox gets, by the id of the activity.
type follower struct {
	url string

	mu  sync.Mutex
	got map[string]int
}

func newFollower(t *testing.T) *follower {
	f := &follower{got: map[string]int{}}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var a struct {
			ID string `json:"id"`
		}
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
			return // the sender was killed
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.got[a.ID]++
	}))
	t.Cleanup(s.Close)
	f.url = s.URL + "/inbox"
	return f
}

// count is how many activities came, and how often the most frequent one came.
func (f *follower) count() (activities, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.got {
		most = max(most, n)
	}
	return len(f.got), most
}

// asked is the request of an activity of a number.
func asked(n int, inbox string) string {
	const actor = "https://social.example/users/frida"
	return fmt.Sprintf(`{"activity": {"@context":"https://www.w3.org/ns/activitystreams","id":"%s/%d","type":"Like","actor":"%[1]s","object":"https://social.example/1"}, "keyId":"%[3]s", "recipients":["%[4]s"]}`,
		actor, n, keyID, inbox)
}

// outboxStates waits until no row waits, and returns how many rows are in each state.
func (t terminal) outboxStates() map[string]int {
	t.Helper()
	states := map[string]int{}
	e2e.Await(t, time.Minute, "no row to wait", func() (bool, string) {
		clear(states)
		var page client.OutboxRows
		out := t.run([]string{"outbox", "list", "--json", "--limit", "1000"})
		if err := json.Unmarshal([]byte(out), &page.Rows); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, r := range page.Rows {
			states[r.State]++
		}
		return states["waiting"] == 0, fmt.Sprint(states)
	})
	return states
}

// TestAPostAndItsDeliveryAreOneTransactionOnPostgreSQL: what is rolled back is not sent. What the
// API refuses stays with the reason, has an event, and can be retried or dropped.
func TestAPostAndItsDeliveryAreOneTransactionOnPostgreSQL(t *testing.T) {
	schema := pgtest.Schema(t)
	operator(t, "DATABASE_URL", pgtest.URL(t), "DATABASE_SCHEMA", schema)
	fedpost, stop := serving(t, t.TempDir())
	defer stop()
	inbox := newFollower(t)
	insert := `INSERT INTO ` + schema + `.outbox (request, deduplication_key) VALUES ($1, nullif($2, ''))`

	// The key is missing, so both are refused.
	pgtest.Exec(t, insert, asked(1, inbox.url), "")
	pgtest.Exec(t, insert, `{"activity": 1,`, "")
	if got := fedpost.outboxStates(); got["refused"] != 2 {
		t.Fatalf("rows by state: %v, want two refused", got)
	}
	fedpost.run([]string{"outbox", "list", "--state", "refused"}, "keyId", "Malformed JSON")
	fedpost.until("outbox.refused", "events")
	fedpost.run([]string{"events"}, "row 1: ", "row 2: ")
	fedpost.fails("say which", "outbox", "retry")
	fedpost.fails("no refused row has the id 7", "outbox", "drop", "--id", "7")
	fedpost.run([]string{"outbox", "drop", "--id", "2"}, "1 dropped")
	fedpost.run([]string{"keys", "generate", keyID})
	fedpost.run([]string{"outbox", "retry", "--all"}, "1 retried")

	c, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	tx, err := c.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), insert, asked(2, inbox.url), "")
	}
	if err == nil {
		err = tx.Rollback(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	// The same key twice is one activity; another request with it is refused.
	pgtest.Exec(t, insert, asked(3, inbox.url), "three")
	pgtest.Exec(t, insert, asked(3, inbox.url), "three")
	pgtest.Exec(t, insert, asked(4, inbox.url), "three")
	if got := fedpost.outboxStates(); got["refused"] != 1 || got["accepted"] != 3 {
		t.Errorf("rows by state: %v, want one refused, three accepted", got)
	}
	fedpost.run([]string{"outbox", "list", "--state", "refused"}, "Deduplication key reused")
	fedpost.run([]string{"stats"}, "outbox")
	if _, body := fedpost.get("/metrics", token); !strings.Contains(body, `fedpost_outbox_rows{state="refused"} 1`) || !strings.Contains(body, "fedpost_outbox_oldest_seconds ") {
		t.Errorf("the metrics do not count the rows of the outbox: %s", body)
	}
	e2e.Await(t, 30*time.Second, "activities 1 and 3 to come", func() (bool, string) {
		n, _ := inbox.count()
		return n == 2, fmt.Sprint(n)
	})
	if n, most := inbox.count(); n != 2 || most != 1 {
		t.Errorf("%d activities came, one of them %d times; want two, once each", n, most)
	}
}

// TestALostAnswerMakesNoSecondActivityOnPostgreSQL breaks the connection each time that rows were
// accepted, before their verdicts are written: they come again, and are duplicates.
func TestALostAnswerMakesNoSecondActivityOnPostgreSQL(t *testing.T) {
	schema := pgtest.Schema(t)
	var mu sync.Mutex
	cuts := 0
	p := pgtest.NewProxy(t, func(request []byte) pgtest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if cuts < 3 && strings.Contains(string(request), ".outbox o SET activity") {
			cuts++
			return pgtest.CutBefore
		}
		return pgtest.Pass
	})
	operator(t, "DATABASE_URL", p.URL+"&default_query_exec_mode=exec", "DATABASE_SCHEMA", schema)
	fedpost, stop := serving(t, t.TempDir())
	defer stop()
	fedpost.run([]string{"keys", "generate", keyID})
	inbox := newFollower(t)
	for n := range 5 {
		pgtest.Exec(t, `INSERT INTO `+schema+`.outbox (request) VALUES ($1)`, asked(n, inbox.url))
	}
	if got := fedpost.outboxStates(); got["accepted"] != 5 {
		t.Errorf("rows by state: %v, want five accepted", got)
	}
	e2e.Await(t, 30*time.Second, "five activities to come", func() (bool, string) {
		n, _ := inbox.count()
		return n == 5, fmt.Sprint(n)
	})
	found := len(activitiesOf(fedpost, ""))
	_, most := inbox.count()
	if cuts != 3 || most != 1 || found != 5 {
		t.Errorf("after %d lost answers there are %d activities, and one came %d times; want 3, 5 and once", cuts, found, most)
	}
}
