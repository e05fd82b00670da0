package peers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/wire"
)

const (
	// MaxPeers is how many peers an answer lists, newest first; at most half of them strangers.
	// What other servers read of an answer is limited, too.
	MaxPeers = 200
	// MaxStrangers is how many strangers' records are kept (see Server.Stranger). A new one
	// replaces the one that was seen longest ago.
	MaxStrangers = 1000

	// AnswerAge is how old an answer to GET /discover may be, and how often the registry is read.
	AnswerAge = 5 * time.Second

	// evictions is how many records one registration may remove. More than one has to go only
	// after other processes or earlier versions have added records.
	evictions = 100
	// listing bounds one read of the registry.
	listing = 10 * time.Second
)

// directory is the registry as strangers see it: a cached answer to GET /discover, and a bounded
// number of records of strangers.
type directory struct {
	identity  crypto.Public
	store     Store
	now       func() time.Time
	reads     flights[[]Server]
	admitting chan struct{}

	mu      sync.Mutex
	readAt  time.Time
	servers []Server // newest first; nil before the first read
	answer  []byte   // nil after a change
}

func newDirectory(id crypto.Public, store Store, now func() time.Time) *directory {
	return &directory{identity: id, store: store, now: now, admitting: make(chan struct{}, 1)}
}

// Answer returns the document to serve at /discover.
func (d *directory) Answer(ctx context.Context) ([]byte, error) {
	if _, err := d.list(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.answer == nil {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(wire.Discovery{Card: cardOf(d.identity), Peers: d.peers()}); err != nil {
			return nil, fmt.Errorf("write the discovery document: %w", err)
		}
		d.answer = b.Bytes()
	}
	return d.answer, nil
}

// list returns all servers, newest first, as they were within AnswerAge. The caller must not change
// them.
func (d *directory) list(ctx context.Context) ([]Server, error) {
	if servers := d.cached(); servers != nil {
		return servers, nil
	}
	servers, err := d.reads.do(ctx, "", listing, d.read)
	if err != nil {
		return nil, fmt.Errorf("list sipher servers: %w", err)
	}
	return servers, nil
}

func (d *directory) cached() []Server {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.servers == nil || d.now().Sub(d.readAt) >= AnswerAge {
		return nil
	}
	return d.servers
}

func (d *directory) read(ctx context.Context) ([]Server, error) {
	if servers := d.cached(); servers != nil {
		return servers, nil // a read has ended right before this one began
	}
	servers, err := d.store.Servers(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(servers, NewestFirst)
	if servers == nil {
		servers = []Server{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.servers, d.readAt, d.answer = servers, d.now(), nil
	return servers, nil
}

// peers lists the healthy servers but us, newest first. The caller holds d.mu.
func (d *directory) peers() []wire.Peer {
	peers := []wire.Peer{} // never null
	strangers := 0
	for _, s := range d.servers {
		if !s.IsHealthy || d.identity.Is(s.URL) || s.Stranger && strangers == MaxPeers/2 {
			continue
		}
		if s.Stranger {
			strangers++
		}
		if peers = append(peers, wire.Peer{URL: s.URL, IsHealthy: true}); len(peers) == MaxPeers {
			break
		}
	}
	return peers
}

// Admit registers a server that registers itself, if necessary in place of another stranger.
func (d *directory) Admit(ctx context.Context, shown wire.Card) (Server, error) {
	select {
	case d.admitting <- struct{}{}:
		defer func() { <-d.admitting }()
	case <-ctx.Done():
		return Server{}, fmt.Errorf("register %s: %w", shown.URL, context.Cause(ctx))
	}
	if err := d.makeRoom(ctx, shown.URL); err != nil {
		return Server{}, err
	}
	s, err := Admit(ctx, d.store, shown, Registered, d.now())
	if err != nil {
		return Server{}, err
	}
	d.replace(s.URL, &s)
	return s, nil
}

// makeRoom removes the strangers seen longest ago if a new one would exceed MaxStrangers.
func (d *directory) makeRoom(ctx context.Context, url string) error {
	servers, err := d.list(ctx)
	if err != nil {
		return err
	}
	var strangers []Server
	for _, s := range servers {
		if s.URL == url {
			return nil // the server has a record already
		}
		if s.Stranger {
			strangers = append(strangers, s)
		}
	}
	excess := min(len(strangers)+1-MaxStrangers, evictions)
	for ; excess > 0; excess-- {
		oldest := strangers[len(strangers)-1].URL
		strangers = strangers[:len(strangers)-1]
		if err := d.store.ForgetStranger(ctx, oldest); err != nil {
			return fmt.Errorf("make room for %s: %w", url, err)
		}
		d.replace(oldest, nil)
	}
	return nil
}

// replace replaces a server's cached record by s, or removes it if s is nil.
func (d *directory) replace(url string, s *Server) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A copy, as others read the old one.
	servers := slices.DeleteFunc(slices.Clone(d.servers), func(o Server) bool { return o.URL == url })
	if s != nil {
		at, _ := slices.BinarySearchFunc(servers, *s, NewestFirst)
		servers = slices.Insert(servers, at, *s)
	}
	d.servers, d.answer = servers, nil
}

// NewestFirst compares servers for sorting: the last seen first, then by URL.
func NewestFirst(a, b Server) int {
	return cmp.Or(b.LastSeen.Compare(a.LastSeen), strings.Compare(a.URL, b.URL))
}
