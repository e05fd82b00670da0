package simulation

import (
	"container/list"
	"maps"
	"testing"
)

func TestEntriesAreCountedWhereverTheyAre(t *testing.T) {
	var k struct {
		byName   map[string]any
		order    list.List
		all, any any
		next     chan int
		text     []byte
		inner    []struct{ ints []int }
	}
	k.next, k.text = make(chan int, 3), []byte("a text")
	for field, n := range entriesOf(&k) {
		if n > 0 {
			t.Errorf("%s has %d entries before there are any", field, n)
		}
	}
	k.byName = map[string]any{"itself": &k, "one": [2][]int{{1}, {2, 3}}} // reached once
	k.order.PushBack(map[string]int{"a": 1, "b": 2})
	k.order.PushBack(1)
	k.all, k.any = []any{&k, &k}, map[int]bool{1: true, 2: true, 3: true, 4: true}
	k.next <- 1
	k.inner = []struct{ ints []int }{{[]int{1, 2}}, {[]int{3}}}
	got := entriesOf(&k)
	maps.DeleteFunc(got, func(_ string, n int) bool { return n == 0 })
	want := map[string]int{
		"struct.byName": 2 + 3, "struct.order": 2 + 2, "struct.all": 2, "struct.any": 4, "struct.next": 1,
		"struct.inner": 2, "struct.ints": 3,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
