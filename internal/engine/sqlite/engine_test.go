package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/engine/table"
)

func TestEveryCommitWaitsForTheDisk(t *testing.T) {
	e := openAt(t, file(t), Options{})
	for pragma, want := range map[string]int{"synchronous": 2, "fullfsync": 1, "checkpoint_fullfsync": 1, "auto_vacuum": 2} {
		var got int
		if err := e.write(t.Context(), func(s *session) error {
			_, err := s.one("PRAGMA "+pragma, nil, &got)
			return err
		}); err != nil || got != want {
			t.Errorf("%s is %d, error %v, want %d", pragma, got, err, want)
		}
	}
	var journal string
	if err := e.write(t.Context(), func(s *session) error {
		_, err := s.one("PRAGMA journal_mode", nil, &journal)
		return err
	}); err != nil || journal != "wal" {
		t.Errorf("the journal's mode is %s, error %v", journal, err)
	}
}

func TestFilesWithOddNames(t *testing.T) {
	for _, name := range []string{"with space", "percent%20", "question?mark", "hash#", "ünï", "semi;colon&amp"} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name+".db")
		e := openAt(t, path, Options{})
		mustSend(t, e.Queue(queue.Normal), queue.Message{Body: "x"})
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestFileThatCannotBeOpened(t *testing.T) {
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "no such directory", "x.db"), Options{}); err == nil {
		t.Error("opened a file in a directory that is not there")
	}
	path := file(t)
	if err := os.WriteFile(path, []byte("this is no database, whatever its name says, and it is long enough to tell"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{}); err == nil {
		t.Error("opened a file that is no database")
	}
}

func TestFileOfANewerVersionIsRefused(t *testing.T) {
	path := file(t)
	e := openAt(t, path, Options{})
	if err := e.writer.session.script(fmt.Sprintf("PRAGMA user_version = %d", schemaVersion+1)); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{}); err == nil {
		t.Error("opened a file of a newer version")
	}
}

// TestAFailedWriteUndoesOnlyItself puts failing and working writes into the
// same commit.
func TestAFailedWriteUndoesOnlyItself(t *testing.T) {
	e := openAt(t, Memory, Options{})
	boom := errors.New("boom")
	block, blocked := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := e.write(context.Background(), func(*session) error {
			close(blocked)
			<-block
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-blocked // the writer is busy: what comes now is gathered into one group
	for i := range 20 {
		wg.Go(func() {
			err := e.write(context.Background(), func(s *session) error {
				if err := put(s, table.Item{Key: table.Key{PK: "p", SK: fmt.Sprint(i)}}); err != nil {
					return err
				}
				if i%2 == 1 {
					return boom
				}
				return nil
			})
			if errors.Is(err, boom) != (i%2 == 1) || errors.Is(err, queue.ErrUncertain) {
				t.Errorf("write %d: %v", i, err)
			}
		})
	}
	close(block)
	wg.Wait()
	if n := rows(t, e, "item"); n != 10 {
		t.Errorf("%d items, want the 10 of the writes that worked", n)
	}
}

// TestACommitThatFailsIsUncertain ends the transaction without the writer.
func TestACommitThatFailsIsUncertain(t *testing.T) {
	e := openAt(t, Memory, Options{})
	err := e.write(t.Context(), func(s *session) error { return s.exec("ROLLBACK") })
	if !errors.Is(err, queue.ErrUncertain) {
		t.Errorf("error %v", err)
	}
	mustSend(t, e.Queue(queue.Normal), queue.Message{Body: "the engine goes on"})
}

func TestCallGivenUpBeforeItBeganDidNothing(t *testing.T) {
	e := openAt(t, Memory, Options{})
	block, blocked, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- e.write(context.Background(), func(*session) error {
			close(blocked)
			<-block
			return nil
		})
	}()
	<-blocked
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := e.Queue(queue.Normal).Send(ctx, queue.Message{Body: "x"}); !queue.NotSent(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	close(block)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := rows(t, e, "message"); n != 0 {
		t.Errorf("%d messages", n)
	}
}

func TestSweepDropsWhatHasHadItsTime(t *testing.T) {
	c := queuetest.NewClock()
	e := openAt(t, file(t), Options{Now: c.Now})
	tb := e.Table()
	var items []table.Item
	for i := range sweepStep + 10 {
		items = append(items, table.Item{Key: table.Key{PK: "p", SK: fmt.Sprint("old", i)}, Expires: c.Now(), Data: make([]byte, 4000)})
	}
	items = append(items,
		table.Item{Key: table.Key{PK: "p", SK: "recent"}, Expires: c.Now().Add(time.Second)},
		table.Item{Key: table.Key{PK: "p", SK: "eternal"}})
	if err := tb.PutAll(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	mustSend(t, e.Queue(queue.Ordered), ordered("g", "k", "x"))
	c.Advance(time.Second)
	if err := e.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := rows(t, e, "item"); n != len(items) {
		t.Errorf("%d items, want all %d: they expired just now", n, len(items))
	}
	if n := rows(t, e, "dedup"); n != 1 {
		t.Errorf("%d deduplication ids, want one in its window", n)
	}
	before := pages(t, e)
	c.Advance(Grace - time.Second)
	if err := e.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := rows(t, e, "item"); n != 2 {
		t.Errorf("%d items, want the recent and the eternal one", n)
	}
	if n := rows(t, e, "dedup"); n != 0 {
		t.Errorf("%d deduplication ids, want none", n)
	}
	if after := pages(t, e); after >= before {
		t.Errorf("the file went from %d to %d pages", before, after)
	}
	var free int
	if err := e.read(t.Context(), func(s *session) error {
		_, err := s.one("PRAGMA freelist_count", nil, &free)
		return err
	}); err != nil || free != 0 {
		t.Errorf("%d free pages, error %v, want them given back", free, err)
	}
}

func TestQueueDefaults(t *testing.T) {
	e := openAt(t, Memory, Options{Queues: map[queue.Name]queue.Config{
		queue.Low: {Visibility: time.Minute}, queue.Dead: {MaxReceives: 3, Retention: time.Hour},
	}})
	for name, want := range map[queue.Name]queue.Config{
		queue.High: {Visibility: 30 * time.Second, MaxReceives: 10, Retention: 14 * 24 * time.Hour},
		queue.Low:  {Visibility: time.Minute, Retention: 14 * 24 * time.Hour},
		queue.Dead: {Visibility: 30 * time.Second, Retention: time.Hour},
	} {
		if got := e.configs[name]; got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func pages(t *testing.T, e *Engine) int {
	t.Helper()
	var n int
	if err := e.read(t.Context(), func(s *session) error {
		_, err := s.one("PRAGMA page_count", nil, &n)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFilesAreTheirOwnersOnly(t *testing.T) {
	path := file(t)
	e := openAt(t, path, Options{})
	mustSend(t, e.Queue(queue.Normal), queue.Message{Body: "a direct message"})
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", info.Name(), info.Mode())
		}
	}
}

// TestFullDisk uses SQLite's limit on the size of a file, which fails in the same
// way as a full disk.
func TestFullDisk(t *testing.T) {
	e := openAt(t, file(t), Options{})
	q := e.Queue(queue.Normal)
	mustSend(t, q, queue.Message{Body: "before"})
	limit := func(pages int) {
		t.Helper()
		if err := e.write(t.Context(), func(s *session) error {
			_, err := s.one(fmt.Sprintf("PRAGMA max_page_count = %d", pages), nil, new(int))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	limit(1) // which SQLite takes as the pages there are
	large := queue.Message{Body: strings.Repeat("x", 500_000)}
	for range 3 {
		err := q.Send(t.Context(), large)
		if err == nil || strings.Contains(err.Error(), "closed") {
			t.Errorf("error %v", err)
		}
		// Where the error promised that nothing was sent, nothing was. An
		// uncertain error promises nothing.
		if n := rows(t, e, "body"); n != 1 {
			t.Errorf("%d bodies after error %v", n, err)
		}
	}
	limit(1_000_000)
	mustSend(t, q, large)
	if got := receive(t, q, queue.ReceiveOptions{}); len(got) != 2 || got[0].Body != "before" || got[1].Body != large.Body {
		t.Errorf("received %d messages when there was room again", len(got))
	}
}

func TestTimesBeyondTheRange(t *testing.T) {
	tb := openAt(t, Memory, Options{}).Table()
	k := table.Key{PK: "a", SK: "b"}
	far := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := tb.Put(t.Context(), table.Item{Key: k, Expires: far, Due: table.Due{Shard: "s", At: far}}, table.Cond{}); err != nil {
		t.Fatal(err)
	}
	err := tb.Put(t.Context(), table.Item{Key: k}, table.Free(time.Now()))
	if !errors.Is(err, table.ErrConflict) {
		t.Errorf("what expires in 9999 is free now: %v", err)
	}
	if got, err := tb.Due(t.Context(), "s", time.Now(), 1); err != nil || len(got) != 0 {
		t.Errorf("what is due in 9999 is due now: %v, error %v", got, err)
	}
	if got, err := tb.Due(t.Context(), "s", far, 1); err != nil || len(got) != 1 {
		t.Errorf("%v, error %v", got, err)
	}
}

// TestNoStatementIsPlannedAnewForItsLimit looks at all statements that a session prepares:
// SQLite plans a statement anew for each value of a limit that is a bare parameter.
func TestNoStatementIsPlannedAnewForItsLimit(t *testing.T) {
	e := openAt(t, Memory, Options{})
	for _, name := range queue.Names {
		receive(t, e.Queue(name), queue.ReceiveOptions{})
	}
	if err := e.Queue(queue.Ordered).Send(t.Context(), ordered("g", "k", "x")); err != nil {
		t.Fatal(err)
	}
	receive(t, e.Queue(queue.Ordered), queue.ReceiveOptions{})
	if err := e.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range []table.Range{{PK: "a", Limit: 1}, {PK: "a", From: "a", To: "b"}} {
		if _, _, err := e.Table().Query(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Table().Due(t.Context(), "s", time.Now(), 1); err != nil {
		t.Fatal(err)
	}
	limits := 0
	for text := range e.writer.session.stmts {
		_, limit, ok := strings.Cut(text, "LIMIT ?")
		if !ok {
			continue
		}
		if limits++; !strings.HasSuffix(strings.TrimRight(limit, ")"), " + 0") {
			t.Errorf("a limit that is a bare parameter: %s", text)
		}
	}
	if limits < 8 {
		t.Errorf("only %d statements with a limit were looked at", limits)
	}
}
