package sqlite

import (
	"testing"
	"time"

	"fedpost/internal/engine/table"
)

// TestAnItemIsFoundByTheTimesOfItsLastWrite, whether a write kept them, which leaves the index
// of due items as it is, or changed them.
func TestAnItemIsFoundByTheTimesOfItsLastWrite(t *testing.T) {
	items := openAt(t, Memory, Options{}).Table()
	at := time.Now()
	it := table.Item{Key: table.Key{PK: "p", SK: "s"}, Expires: at.Add(time.Hour), Due: table.Due{Shard: "a", At: at}}
	fence := ""
	write := func(name string, change func()) {
		t.Helper()
		change()
		it.Fence, it.Data = name, []byte("data of "+name)
		cond := table.Fenced(fence)
		if fence == "" {
			cond = table.Free(at)
		}
		if err := items.Put(t.Context(), it, cond); err != nil {
			t.Fatal(err)
		}
		fence = name
		found, err := items.Get(t.Context(), it.Key)
		if got := found[it.Key]; err != nil || got.Fence != name || string(got.Data) != string(it.Data) || !got.Expires.Equal(it.Expires) || !got.Due.At.Equal(it.Due.At) {
			t.Errorf("after %s: %+v, %v", name, got, err)
		}
		for _, shard := range []string{"a", "b"} {
			due, err := items.Due(t.Context(), shard, at.Add(time.Minute), 0)
			want := it.Due.Shard == shard && !it.Due.At.After(at.Add(time.Minute))
			if err != nil || (len(due) == 1) != want || want && due[0].Fence != name {
				t.Errorf("after %s, due in %s: %+v, %v", name, shard, due, err)
			}
		}
	}
	write("first", func() {})
	write("same times", func() {})
	write("later", func() { it.Due.At = at.Add(time.Hour) })
	write("other shard", func() { it.Due = table.Due{Shard: "b", At: at} })
	write("never expires", func() { it.Expires = time.Time{} })
	write("same again", func() {})
	write("not due", func() { it.Due = table.Due{} })
	write("same, not due", func() {})
}
