package postgres_test

import (
	"errors"
	"testing"

	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/engines/pgtest"
)

// TestOnlyWhatACrashOfTheServerMayUndoCommitsWithoutASync: no item, as its writer goes on after a crash
// of the server. It would send an activity without a record, or could not record what it has sent.
func TestOnlyWhatACrashOfTheServerMayUndoCommitsWithoutASync(t *testing.T) {
	schema := pgtest.Schema(t)
	e := pgtest.Open(t, postgres.Options{Schema: schema})
	pgtest.Exec(t, `CREATE TABLE `+schema+`.seen (synced text)`)
	pgtest.Exec(t, `CREATE FUNCTION `+schema+`.see() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN INSERT INTO `+schema+`.seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$`)
	for _, name := range []string{"item", "lease"} {
		pgtest.Exec(t, `CREATE TRIGGER see AFTER INSERT OR UPDATE OR DELETE ON `+schema+`.`+name+` EXECUTE FUNCTION `+schema+`.see()`)
	}
	q := e.Queue(queue.Normal)
	put := func(it table.Item) func() error {
		it.Key = table.Key{PK: "p", SK: "s"}
		return func() error {
			return errors.Join(e.Table().Put(t.Context(), it, table.Cond{}), e.Table().PutAll(t.Context(), []table.Item{it}))
		}
	}
	var handle string
	for _, c := range []struct {
		name     string
		call     func() error
		unsynced bool
	}{
		{"send", func() error { return q.Send(t.Context(), queue.Message{Body: "x"}) }, false},
		{"receive", func() error {
			got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 1})
			if len(got) == 1 {
				handle = got[0].Handle
			}
			return err
		}, false},
		{"change the visibility", func() error { return q.ChangeVisibility(t.Context(), handle, 0) }, true},
		{"put", put(table.Item{}), false},
		{"put unsynced", put(table.Item{Unsynced: true}), false},
		{"delete an item", func() error { return e.Table().Delete(t.Context(), table.Key{PK: "p", SK: "s"}, table.Cond{}) }, false},
		{"delete a message", func() error { return q.Delete(t.Context(), handle) }, true},
	} {
		pgtest.Exec(t, `TRUNCATE `+schema+`.seen`)
		if err := c.call(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		all, off := pgtest.Count(t, schema+`.seen`), pgtest.Count(t, schema+`.seen WHERE synced = 'off'`)
		if all == 0 || c.unsynced != (off == all) || !c.unsynced && off > 0 {
			t.Errorf("%s: %d of %d writes were committed without a sync, want all: %t", c.name, off, all, c.unsynced)
		}
	}
}
