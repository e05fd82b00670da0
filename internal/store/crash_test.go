package store_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/activity"
	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/store"
	"fedpost/internal/testkit/engines/pgtest"
)

// TestACrashOfPostgreSQLUndoesNoRecord: the server crashes and starts again between the record of a
// call and its send, which succeeds. So the call is answered with 202, and its activity has to be
// found.
func TestACrashOfPostgreSQLUndoesNoRecord(t *testing.T) {
	server := pgtest.NewServer(t)
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	// Otherwise the server may write what waits for no sync just before it crashes.
	for _, set := range []string{`ALTER SYSTEM SET wal_writer_delay = '10s'`, `SELECT pg_reload_conf()`} {
		if _, err := conn.Exec(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	_ = conn.Close(t.Context())
	e := pgtest.OpenAt(t, server.URL, postgres.Options{})
	s := store.New(e.Table(), time.Now)

	now := time.Now().UTC().Truncate(time.Millisecond)
	id := activity.DerivedID(now, "accepted")
	if err := s.CreateActivity(t.Context(), ledger.Record{ID: id, CreatedAt: now, Forget: now.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	l := ledger.Listed{ID: id, ActivityID: "https://social.example/1", Sender: "frida", CreatedAt: now, Forget: now.Add(time.Hour)}
	if err := s.ListActivities(t.Context(), []ledger.Listed{l}); err != nil {
		t.Fatal(err)
	}
	server.Stop("immediate")
	server.Start()
	if err := e.Queue(queue.Normal).Send(t.Context(), queue.Message{Body: "x"}); err != nil {
		t.Fatalf("send after the crash: %v", err)
	}
	if _, err := s.Activity(t.Context(), id); err != nil {
		t.Errorf("the record of an activity that was sent: %v", err)
	}
	found, _, err := s.FindActivities(t.Context(), ledger.Sought{ActivityID: l.ActivityID}, "", 1)
	if err != nil || len(found) != 1 {
		t.Errorf("%d activities are found by the id of the one that was sent, error %v; want 1", len(found), err)
	}
}
