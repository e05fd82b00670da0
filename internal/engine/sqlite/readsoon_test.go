package sqlite

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"fedpost/internal/engine/table"
)

// fill puts n items of one partition, and returns their keys.
func fill(t *testing.T, e *Engine, n int) []table.Key {
	t.Helper()
	var items []table.Item
	var keys []table.Key
	for i := range n {
		k := table.Key{PK: "p", SK: fmt.Sprintf("%03d", i)}
		items, keys = append(items, table.Item{Key: k}), append(keys, k)
	}
	if err := e.Table().PutAll(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestAQueryFindsTheSameWhereverItIsDone: between the writes or beside them, which its length
// decides.
func TestAQueryFindsTheSameWhereverItIsDone(t *testing.T) {
	for _, n := range []int{0, 1, little - 1, little, little + 1, little + 2, 3 * little} {
		e := openAt(t, file(t), Options{})
		fill(t, e, n)
		for _, limit := range []int{0, 1, little - 1, little, little + 1, 3 * little, 4 * little} {
			for _, newest := range []bool{false, true} {
				items, more, err := e.Table().Query(t.Context(), table.Range{PK: "p", Limit: limit, Newest: newest})
				want := n
				if limit > 0 {
					want = min(n, limit)
				}
				if err != nil || len(items) != want || more != (want < n) {
					t.Fatalf("%d of %d items with limit %d, more: %t, %v", len(items), n, limit, more, err)
				}
				for i, it := range items {
					place := i
					if newest {
						place = n - 1 - i
					}
					if it.SK != fmt.Sprintf("%03d", place) {
						t.Fatalf("item %d of %d with limit %d is %s", i, n, limit, it.SK)
					}
				}
			}
		}
	}
}

// TestLongReadsAreDoneBesideTheWrites: a long read holds up no write; a short one needs no reader.
func TestLongReadsAreDoneBesideTheWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openAt(t, file(t), Options{})
		keys := fill(t, e, little+1)
		var wg sync.WaitGroup
		release := make(chan struct{})
		for range readSessions {
			wg.Go(func() {
				if err := e.read(t.Context(), func(*session) error { <-release; return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if got, err := e.Table().Get(t.Context(), keys[:little]...); err != nil || len(got) != little {
			t.Errorf("got %d items, %v", len(got), err)
		}
		if got, more, err := e.Table().Query(t.Context(), table.Range{PK: "p", Limit: little}); err != nil || len(got) != little || !more {
			t.Errorf("found %d items, more: %t, %v", len(got), more, err)
		}
		var long [2]int
		wg.Go(func() {
			got, err := e.Table().Get(t.Context(), keys...)
			if err != nil {
				t.Error(err)
			}
			long[0] = len(got)
		})
		wg.Go(func() {
			got, _, err := e.Table().Query(t.Context(), table.Range{PK: "p"})
			if err != nil {
				t.Error(err)
			}
			long[1] = len(got)
		})
		synctest.Wait()
		if long != [2]int{} {
			t.Errorf("%v items were read while all readers were taken", long)
		}
		if err := e.write(t.Context(), func(*session) error { return nil }); err != nil {
			t.Error(err)
		}
		close(release)
		wg.Wait()
		if want := [2]int{little + 1, little + 1}; long != want {
			t.Errorf("read %v items, want %v", long, want)
		}
	})
}

// TestAShortReadDoesNotWaitForTheDisk: a reader does it while a commit is under way, and sees what
// was committed before. If all readers are taken, it comes after that commit.
func TestAShortReadDoesNotWaitForTheDisk(t *testing.T) {
	for _, taken := range []int{0, readSessions} {
		synctest.Test(t, func(t *testing.T) {
			e := openAt(t, file(t), Options{})
			keys := fill(t, e, 1)
			var readers, calls sync.WaitGroup
			held := make(chan struct{})
			for range taken {
				readers.Go(func() {
					if err := e.read(t.Context(), func(*session) error { <-held; return nil }); err != nil {
						t.Error(err)
					}
				})
			}
			release := blocked(t, e, &calls)
			var got map[table.Key]table.Item
			done := false
			calls.Go(func() {
				var err error
				if got, err = e.Table().Get(t.Context(), keys...); err != nil {
					t.Error(err)
				}
				done = true
			})
			synctest.Wait()
			if want := taken == 0; done != want {
				t.Errorf("%d readers are taken, read: %t", taken, done)
			}
			release()
			calls.Wait()
			if len(got) != 1 {
				t.Errorf("%d readers are taken, read %v", taken, got)
			}
			close(held)
			readers.Wait()
		})
	}
}

// TestAReadIsAnsweredWhereItsGroupIsNot: a read that shares a transaction with writes shares
// neither a commit that fails nor what is undone with it.
func TestAReadIsAnsweredWhereItsGroupIsNot(t *testing.T) {
	for name, fail := range map[string]func(*session) error{
		"the commit fails": func(s *session) error { return s.exec("ROLLBACK") },
		"a write is undone": func(s *session) error {
			if err := put(s, table.Item{Key: table.Key{PK: "p", SK: "undone"}}); err != nil {
				return err
			}
			return fmt.Errorf("a write that fails")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := openAt(t, file(t), Options{})
				keys := append(fill(t, e, 2), table.Key{PK: "p", SK: "undone"})
				var wg sync.WaitGroup
				block := make(chan struct{})
				write := func(do func(*session) error, wantErr bool) {
					wg.Go(func() {
						if err := e.write(t.Context(), do); (err != nil) != wantErr {
							t.Errorf("a write ended with %v", err)
						}
					})
					synctest.Wait() // it waits for the writer, behind those before it
				}
				write(func(*session) error { <-block; return nil }, false)
				write(fail, true)
				wg.Go(func() {
					if got, err := e.Table().Get(t.Context(), keys...); err != nil || len(got) != 2 {
						t.Errorf("got %v, %v", got, err)
					}
				})
				wg.Go(func() {
					items, _, err := e.Table().Query(t.Context(), table.Range{PK: "p"})
					if err != nil || !slices.EqualFunc(items, keys[:2], func(it table.Item, k table.Key) bool { return it.Key == k }) {
						t.Errorf("found %v, %v", items, err)
					}
				})
				synctest.Wait()
				close(block)
				wg.Wait()
			})
		})
	}
}

// TestReadersKeepFewPages: a view of a large activity reads thousands of pages. 300 views of
// activities with 10,000 recipients once left a process with 187 MB.
func TestReadersKeepFewPages(t *testing.T) {
	e := openAt(t, file(t), Options{})
	err := e.read(t.Context(), func(s *session) error {
		var size int // negative: KiB
		_, err := s.one(`PRAGMA cache_size`, nil, &size)
		if all := -size * readSessions; all < 1 || all > 8<<10 {
			t.Errorf("all readers keep %d KiB, at most 8 MiB", all)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
