package keys

import (
	"container/list"
	"sync"
	"time"
)

// cache holds the most recently used values, in bounded number and for a bounded time.
type cache[V any] struct {
	mu    sync.Mutex
	size  int
	ttl   time.Duration
	now   func() time.Time
	order *list.List // front: used last
	at    map[string]*list.Element
	// drops counts calls of drop, for put.
	drops int
}

type entry[V any] struct {
	id    string
	value V
	until time.Time
}

func newCache[V any](size int, ttl time.Duration, now func() time.Time) *cache[V] {
	return &cache[V]{size: size, ttl: ttl, now: now, order: list.New(), at: map[string]*list.Element{}}
}

func (c *cache[V]) get(id string) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.at[id]
	if !ok {
		return v, false
	}
	e := el.Value.(entry[V])
	if left := e.until.Sub(c.now()); left <= 0 || left > 2*c.ttl { // the latter: the clock was set back
		c.remove(el)
		return v, false
	}
	c.order.MoveToFront(el)
	return e.value, true
}

// generation returns an argument for put. Call it before the value is read from the store.
func (c *cache[V]) generation() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drops
}

// put keeps v unless any id was dropped since generation was called: v may have been replaced.
func (c *cache[V]) put(id string, v V, generation int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops != generation {
		return
	}
	if el, ok := c.at[id]; ok {
		c.remove(el)
	}
	c.at[id] = c.order.PushFront(entry[V]{id, v, c.now().Add(c.ttl)})
	for c.order.Len() > c.size {
		c.remove(c.order.Back())
	}
}

// update changes the value of an id that is held, but not when it expires.
func (c *cache[V]) update(id string, change func(*V)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.at[id]; ok {
		e := el.Value.(entry[V])
		change(&e.value)
		el.Value = e
	}
}

func (c *cache[V]) drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	if el, ok := c.at[id]; ok {
		c.remove(el)
	}
}

func (c *cache[V]) remove(el *list.Element) {
	c.order.Remove(el)
	delete(c.at, el.Value.(entry[V]).id)
}
