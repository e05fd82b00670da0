package sqlite

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
)

//go:embed testdata/schema1.sql
var schema1 string

// oldFile writes a file of the first schema, with a message on a queue and an item.
func oldFile(t *testing.T, path string) {
	t.Helper()
	if err := create(path); err != nil {
		t.Fatal(err)
	}
	source, err := uri(path, pragmas...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSession(source)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	err = s.script(schema1 + fmt.Sprintf(`INSERT INTO message (queue, fifo, grp, dedup, sent, visible) VALUES ('normal', 0, '', '', %d, %d);
		INSERT INTO body (seq, body, attributes) VALUES (1, 'old message', '');
		INSERT INTO item (pk, sk, fence, data) VALUES ('a', 'b', 'f', CAST('old item' AS BLOB));`, now, now))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

func TestAFileOfTheFirstSchemaIsBroughtUpToDate(t *testing.T) {
	path := file(t)
	oldFile(t, path)
	old, fresh := openAt(t, path, Options{}), openAt(t, file(t), Options{})
	if got, want := objects(t, old), objects(t, fresh); !slices.Equal(got, want) {
		t.Errorf("an old file has %v, a new one %v", got, want)
	}
	if got := receive(t, old.Queue(queue.Normal), queue.ReceiveOptions{}); bodies(got) != "old message" {
		t.Errorf("received %q", bodies(got))
	}
	k := table.Key{PK: "a", SK: "b"}
	if got, err := old.Table().Get(t.Context(), k); err != nil || string(got[k].Data) != "old item" {
		t.Errorf("item %q, error %v", got[k].Data, err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, path, Options{}) // once more, without anything to migrate
}

// TestAMigrationThatFailsChangesNothing: the file has an index of the name already.
func TestAMigrationThatFailsChangesNothing(t *testing.T) {
	path := file(t)
	oldFile(t, path)
	source, err := uri(path, pragmas...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSession(source)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.script("CREATE INDEX message_sent ON message (sent)"); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := Open(t.Context(), path, Options{}); err == nil || !strings.Contains(err.Error(), "from schema 1 to") {
			t.Errorf("opened, or failed with %v", err)
		}
	}
}

// objects are the tables and indices of a file, as they were declared.
func objects(t *testing.T, e *Engine) []string {
	t.Helper()
	var all []string
	err := e.read(t.Context(), func(s *session) error {
		return s.each(`SELECT name || ': ' || coalesce(sql, '') FROM sqlite_schema ORDER BY name`, nil, func(scan func(...any) error) error {
			var text string
			err := scan(&text)
			all = append(all, text)
			return err
		})
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d objects, error %v", len(all), err)
	}
	return all
}

// TestNoStatementReadsAWholeQueue asks SQLite how it finds the oldest message and those past
// their retention: with 400,000 messages on a queue a full read takes 0.1 s.
func TestNoStatementReadsAWholeQueue(t *testing.T) {
	e := openAt(t, Memory, Options{})
	if _, err := e.Queue(queue.Normal).(*mq).Oldest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	looked := 0
	for text := range e.writer.session.stmts {
		if !strings.HasPrefix(text, "SELECT") || !strings.Contains(text, "sent") || strings.Contains(text, "body") {
			continue
		}
		looked++
		var plan []string
		err := e.write(t.Context(), func(s *session) error {
			plan = nil
			return s.each("EXPLAIN QUERY PLAN "+text, []any{"normal", int64(1), int64(1)}[:strings.Count(text, "?")], func(scan func(...any) error) error {
				var id, parent, unused int
				var detail string
				err := scan(&id, &parent, &unused, &detail)
				plan = append(plan, detail)
				return err
			})
		})
		if all := strings.Join(plan, "; "); err != nil || !strings.Contains(all, "INDEX message_sent (queue=?") || strings.Contains(all, "TEMP B-TREE") {
			t.Errorf("%s: %s, error %v", text, all, err)
		}
	}
	if looked != 2 {
		t.Errorf("%d statements were looked at", looked)
	}
}
