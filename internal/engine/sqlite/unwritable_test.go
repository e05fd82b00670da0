package sqlite

import (
	"errors"
	"strings"
	"testing"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
)

// TestADiskThatIsFullIsNamedAndLeftBehind: calls fail with the cause, what was there stays,
// and calls succeed again once there is room. A limit on pages stands in for the disk: SQLite
// answers SQLITE_FULL to both.
func TestADiskThatIsFullIsNamedAndLeftBehind(t *testing.T) {
	for name, c := range map[string]struct {
		begin, end string
		cause      error
	}{
		"full":      {"PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000", table.ErrDiskFull},
		"read-only": {"PRAGMA query_only = 1", "PRAGMA query_only = 0", table.ErrReadOnly},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t)
			e := openAt(t, path, Options{})
			q := e.Queue(queue.Normal)
			if err := q.Send(t.Context(), queue.Message{Body: "before"}); err != nil {
				t.Fatal(err)
			}
			pragma := func(text string) {
				t.Helper()
				// Behind the writer's savepoint it would be refused or undone.
				e.writer.stop()
				if err := e.writer.session.script(text); err != nil {
					t.Fatal(err)
				}
				e.writer = newWriter(e.writer.session)
			}
			pragma(c.begin)
			large := queue.Message{Body: strings.Repeat("x", 200_000)}
			for range 3 {
				if err := q.Send(t.Context(), large); !errors.Is(err, c.cause) {
					t.Errorf("a message: %v", err)
				}
				it := table.Item{Key: table.Key{PK: "a", SK: "b"}, Data: []byte(large.Body)}
				if err := e.Table().Put(t.Context(), it, table.Cond{}); !errors.Is(err, c.cause) {
					t.Errorf("an item: %v", err)
				}
			}
			pragma(c.end)
			if err := q.Send(t.Context(), queue.Message{Body: "after"}); err != nil {
				t.Errorf("after it: %v", err)
			}
			if got := receive(t, q, queue.ReceiveOptions{Max: 10}); bodies(got) != "before after" {
				t.Errorf("received %q", bodies(got))
			}
			if f, err := Inspect(t.Context(), path); err != nil || f.Err() != nil {
				t.Errorf("%+v, %v", f, err)
			}
		})
	}
}
